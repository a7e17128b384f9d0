"""streamctl cost: what a broker counts, priced."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from protocol.records import Record, build_batch
from streamctl.cost_prices import default_text, read_prices
from streamctl.cost_report import COUNTED, make_report
from tests.streamctl.forks import Ended
from tests.support.broker import BrokerProcess, running_broker
from tests.support.wire import WireClient

HOUR_MS: Final = 3_600_000
NOW_MS: Final = 1_790_000_000_000
GIB: Final = 2**30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Run one of its own: where many have been used, the least used topics are told as one."""
    with running_broker(tmp_path_factory.mktemp("cost")) as running:
        yield running


def line(key: str, **counted: float) -> dict[str, Any]:
    nothing: dict[str, float] = dict.fromkeys(COUNTED, 0)
    return {"key": key, "first_hour_ms": NOW_MS - 10 * HOUR_MS, **nothing, **counted}


def answer(
    *lines: dict[str, Any], by: str = "topic", stored: dict[str, int] | None = None, total: int = 0
) -> dict[str, Any]:
    return {
        "since_ms": NOW_MS - 168 * HOUR_MS,
        "until_ms": NOW_MS + HOUR_MS,
        "now_ms": NOW_MS,
        "by": by,
        "usage": list(lines),
        "stored": {"topics": stored or {}, "total": total},
    }


def test_requests_storage_and_transfer_have_their_prices(tmp_path: Path) -> None:
    # Given ten hours of a topic, and a price for everything
    file = tmp_path / "prices.toml"
    file.write_text("put_gb = 1\nget_gb = 10\nproduced_gb = 100\nfetched_gb = 1000\n")
    requests = {"puts": 2_000_000, "lists": 4_000, "gets": 5_000_000, "deletes": 10**9}
    transfer = dict.fromkeys(("put_bytes", "get_bytes", "produced_bytes", "fetched_bytes"), GIB)
    counts: dict[str, float] = {**requests, **transfer}
    usage = answer(line("orders", **counts), stored={"orders": 100 * GIB}, total=100 * GIB)

    # When it is priced
    report = make_report(usage, read_prices(file))

    # Then each is there, and a month is 73 times ten hours, but of what is stored once
    (orders,) = report.lines
    used = 10 + 0.02 + 2 + 1111
    assert report.hours == 10
    assert orders.cost == pytest.approx(used + 2.3 * 10 / 730)
    assert orders.per_month == pytest.approx(used * 73 + 2.3)
    assert (report.total.cost, report.total.per_month) == (orders.cost, orders.per_month)


def test_lines_are_in_the_order_of_their_cost_and_nothing_is_left_out() -> None:
    # Given topics that are only used, only stored, and neither in the index nor a topic's
    usage = answer(
        *(line("used", puts=1.5), line("", lists=1.0), line("both", puts=9000.0)),
        stored={"both": GIB, "kept": 2000 * GIB},
        total=2002 * GIB,
    )

    # When they are priced, then all of them are there, and add up
    report = make_report(usage, read_prices(None))
    keys = [one.key for one in report.lines]
    assert keys == ["kept", "both", "(to be removed)", "used", "(no topic)"]
    assert report.total.stored_bytes == 2002 * GIB
    assert report.total.counted.puts == 9001.5
    assert sum(one.cost for one in report.lines) == pytest.approx(report.total.cost)


def test_days_are_in_order_and_clients_have_no_storage() -> None:
    days = make_report(
        answer(line("2026-09-21", puts=1.0), line("2026-09-20", puts=2.0), by="day", total=GIB),
        read_prices(None),
    )
    assert [one.key for one in days.lines] == ["(stored)", "2026-09-20", "2026-09-21"]
    assert all(one.per_month is None for one in days.lines)
    clients = make_report(answer(line("", puts=1.0), by="client"), read_prices(None))
    assert [(one.key, one.stored_bytes) for one in clients.lines] == [("(no client id)", 0)]


def test_the_default_price_list_tells_its_source_and_can_be_edited(
    run_here: Callable[..., Ended], tmp_path: Path
) -> None:
    shown = run_here("cost", "--show-prices")
    assert shown.exit_code == 0
    assert "https://" in shown.text
    file = tmp_path / "prices.toml"
    file.write_text(shown.text)
    assert read_prices(file) == read_prices(None)
    assert shown.text == default_text()


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("put_per_100 = 1", "did you mean put_per_1000?"),
        ("put_per_1000 = -1", "a number, 0 or more"),
        ("put_per_1000 = '1'", "a number, 0 or more"),
        ("get_gb = nan", "a number, 0 or more"),
        ("gb_bytes = 0", "a number, 0 or more"),
        ("stored_gb_month = true", "a number, 0 or more"),
        ("currency = 1", "is a text"),
        ("put_per_1000 =", "--show-prices"),
    ],
)
def test_a_mistake_in_a_price_list_is_named(
    run_here: Callable[..., Ended], tmp_path: Path, text: str, advice: str
) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    refused = run_here("cost", "--prices", str(file))
    assert refused.exit_code == 1
    assert advice in refused.err
    assert "Traceback" not in refused.err


def test_an_absent_broker_is_told_with_what_to_do(run_here: Callable[..., Ended]) -> None:
    lost = run_here("cost", "--http", "127.0.0.1:1")
    assert lost.exit_code == 1
    assert lost.text == ""
    error, fix = lost.err.splitlines()
    assert error == "error: no broker answered at http://127.0.0.1:1 (Connection refused)"
    assert "--http HOST:PORT" in fix
    assert run_here("cost", "--http", "nowhere").exit_code == 2


@pytest.mark.parametrize("how", ["--bootstrap", "-X", "--config"])
def test_a_cluster_that_is_named_by_bootstrap_is_not_taken_for_another(
    run_here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=broker.example:9092\n")
    named = {"--bootstrap": "broker.example:9092", "-X": file.read_text(), "--config": str(file)}
    elsewhere = (how, named[how], "cost")
    with _serving(200, json.dumps(answer())) as (http, asked):
        # When --bootstrap alone says which cluster, then no other one is asked
        monkeypatch.setenv("STREAMHOUSE_HTTP", http)
        refused = run_here(*elsewhere)
        assert refused.exit_code == 2
        assert "cost asks --http, not --bootstrap" in refused.err
        assert not asked

        # When --http does, then that counts
        assert run_here(*elsewhere, "--http", http).exit_code == 0


@pytest.mark.parametrize(
    ("status", "page", "told"),
    [
        (404, "not found", "does not tell usage"),
        (200, "<html>", "does not tell usage"),
        (200, "[]", "does not tell usage"),
        (200, '{"by": "topic"}', "does not tell usage"),
        (503, '{"error": "the metadata database does not answer"}', "database does not answer"),
    ],
)
def test_an_answer_that_is_none_is_told(
    run_here: Callable[..., Ended], status: int, page: str, told: str
) -> None:
    with _serving(status, page) as (http, _):
        failed = run_here("cost", "--http", http)
    assert failed.exit_code == 1
    assert told in failed.err
    assert "Traceback" not in failed.err


def test_the_broker_is_asked_for_the_period(run_here: Callable[..., Ended]) -> None:
    # Given a broker with a week of usage
    usage = answer(line("orders", puts=1234.5, lists=3.0, produced_bytes=5 * 10**9))
    with _serving(200, json.dumps(usage)) as (http, asked):
        # When a day is asked for
        shown = run_here("cost", "--http", http, "--since", "24h")

    # Then that is what the broker was asked, and each number is shown
    (path,) = asked
    query = parse_qs(urlsplit(path).query)
    assert int(query["since_ms"][0]) == pytest.approx(time.time() * 1000 - 24 * HOUR_MS, abs=60_000)
    assert query["by"] == ["topic"]
    header, orders, total = shown.text.splitlines()
    assert header.split() == [
        *("TOPIC", "PUTS", "LISTS", "GETS", "IN", "OUT", "STORED", "COST", "PER", "MONTH")
    ]
    assert orders.split()[:6] == ["orders", "1,234", "3", "0", "5.0", "GB"]
    assert total.split()[0] == "total"
    assert "Amazon S3 Standard" in shown.err


def test_a_clients_name_does_not_drive_the_terminal(run_here: Callable[..., Ended]) -> None:
    # Given a client that has named itself with an escape sequence, a line's end and markup
    usage = answer(line("\x1b[2Jevil\n[bold]alice", puts=1000.0), by="client")
    with _serving(200, json.dumps(usage)) as (http, _):
        # When the cost is asked for by client
        shown = run_here("cost", "--http", http, "--by", "client")

    # Then it has one line, in which all of that can be read
    _, client, _ = shown.lines
    assert client.startswith(r"\x1b[2Jevil\n[bold]alice ")
    assert "\x1b" not in shown.text


def test_what_is_used_is_priced_though_nobody_knows_what_is_stored(
    run_here: Callable[..., Ended],
) -> None:
    # Given a broker that had no answer in time to what is stored
    usage = {**answer(line("orders", puts=1000.0)), "stored": None}
    with _serving(200, json.dumps(usage)) as (http, _):
        # When the cost is asked for, as a table and as JSON
        shown = run_here("cost", "--http", http)
        in_json = run_here("cost", "--http", http, "--json")

    # Then requests are priced, and what is stored is told to be unknown
    assert [row.split().count("-") for row in shown.text.splitlines()] == [0, 2, 2]
    assert "without what is stored" in shown.err
    assert "without what is stored" in in_json.err
    report = json.loads(in_json.text)
    assert report["total"]["cost"] == 0.005
    assert report["total"]["stored_bytes"] is report["lines"][0]["stored_bytes"] is None


async def test_a_real_broker_tells_what_it_costs(
    broker: BrokerProcess, wire: WireClient, topic: str, run_here: Callable[..., Ended]
) -> None:
    # Given a topic with a record
    await wire.create_topic(topic)
    await wire.produce(topic, _batch())

    # When the cost is asked for, by topic as JSON, and by client as a table
    by_topic = run_here("cost", "--http", broker.http, "--json")
    by_client = run_here("cost", "--http", broker.http, "--by", "client")

    # Then both have it
    report = json.loads(by_topic.text)
    (found,) = (one for one in report["lines"] if one["key"] == topic)
    assert found["puts"] == 1
    assert found["produced_bytes"] == found["stored_bytes"] == len(_batch())
    assert 0 < found["cost"] <= report["total"]["cost"] < report["total"]["per_month"]
    assert report["prices"]["put_per_1000"] == 0.005
    assert by_client.text.splitlines()[0].startswith("CLIENT")
    assert any(row.startswith("test ") for row in by_client.text.splitlines())


def test_help_teaches_with_examples(run_here: Callable[..., Ended]) -> None:
    shown = run_here("cost", "--help")
    assert shown.exit_code == 0
    assert "streamctl cost --since 24h --by client" in shown.text.partition("Examples")[2]


def _batch() -> bytes:
    return build_batch([Record(offset_delta=0, value=b"v" * 1000)])


@contextmanager
def _serving(status: int, page: str) -> Iterator[tuple[str, list[str]]]:
    """Answer every request with one page; yield HOST:PORT, and the paths that were asked for."""
    asked: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Keep the test's output clean."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()
