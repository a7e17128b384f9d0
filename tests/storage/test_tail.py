from storage.tail import BATCH_OVERHEAD_BYTES, PartitionTail, TailCache


def batch(size: int = 100) -> memoryview:
    return memoryview(bytes(size))


def test_the_oldest_batches_of_any_partition_go_first() -> None:
    # Given room for three batches, and two partitions
    cache = TailCache(3 * (100 + BATCH_OVERHEAD_BYTES))
    one, other = PartitionTail(), PartitionTail()
    for offset in range(2):
        cache.append(one, offset, offset + 1, batch())
        cache.append(other, offset, offset + 1, batch())

    # Then the first of the first is forgotten, and the rest is held
    assert (one.start_offset, one.end_offset) == (1, 2)
    assert (other.start_offset, other.end_offset) == (0, 2)
    assert one.read(0, 1000) == ([], 0)
    assert other.read(0, 1000)[1] == 200


def test_forgotten_batches_leave_nothing_behind() -> None:
    cache = TailCache(10 * (100 + BATCH_OVERHEAD_BYTES))
    tail = PartitionTail()
    for offset in range(10_000):
        cache.append(tail, offset, offset + 1, batch())
    assert (tail.start_offset, tail.end_offset) == (9_990, 10_000)
    assert len(tail._batches) < 100


def test_another_brokers_commit_begins_the_tail_anew() -> None:
    cache = TailCache(1 << 20)
    tail = PartitionTail()
    cache.append(tail, 0, 5, batch())
    cache.append(tail, 9, 10, batch())
    assert tail.read(0, 1000) == ([], 0)
    assert (tail.start_offset, tail.end_offset) == (9, 10)


def test_whole_batches_from_the_one_that_holds_the_offset() -> None:
    tail = PartitionTail()
    for base_offset in (0, 10, 20):
        tail.append(base_offset, base_offset + 10, batch())
    assert tail.read(15, 150)[1] == 100
    assert tail.read(15, 200)[1] == 200
    assert tail.read(15, 1)[1] == 100, "the first one comes whatever the limit (KIP-74)"
    assert tail.read(30, 1000) == ([], 0)
