"""Kept answers to Metadata take a bounded amount of memory, whoever asks whatever."""

from broker.metadata_answers import ENTRY_BYTES, MAX_BYTES, EncodedAnswers


def test_an_answer_is_for_one_asker() -> None:
    answers = EncodedAnswers()
    answers.put((0, None, 12, b"question", "127.0.0.1 alice"), b"answer")
    assert answers.get((0, None, 12, b"question", "127.0.0.1 alice")) == b"answer"
    assert answers.get((0, None, 12, b"question", "127.0.0.1 bob")) is None
    assert answers.get((0, None, 12, b"question", None)) is None


def test_the_same_answer_twice_takes_its_place_once() -> None:
    answers = EncodedAnswers()
    for _ in range(3):
        answers.put((0, None, 12, b"question", None), bytes(MAX_BYTES // 2))
    assert answers.get((0, None, 12, b"question", None)) is not None


def test_many_small_answers_do_not_add_up() -> None:
    answers = EncodedAnswers()
    most = MAX_BYTES // ENTRY_BYTES
    for number in range(most + 1):
        answers.put((0, None, 12, b"question", f"127.0.0.1 user-{number}"), b"answer")
    assert answers.get((0, None, 12, b"question", "127.0.0.1 user-0")) is None
    assert answers.get((0, None, 12, b"question", f"127.0.0.1 user-{most}")) == b"answer"
