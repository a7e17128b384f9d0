"""What a report makes of values: medians, ratios within a round, targets kept and missed."""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.versus.__main__ import PARTS, cases_of
from bench.versus.contenders import CONTENDERS
from bench.versus.part import Case, Scale
from bench.versus.plots import draw
from bench.versus.ratios import Spread, Target, Value, lines, read_targets
from bench.versus.report import Report, number
from bench.versus.rounds import home_of_a_round, order, turned

FASTER = Target(part="throughput", case="produce *", figure="mb_per_s", of="kafka", at_least=1.0)


def value(
    contender: str,
    at: int,
    figures: Mapping[str, float | str],
    *,
    case: str = "produce 1 KiB",
    note: str = "",
) -> Value:
    return Value(
        number=at,
        contender=contender,
        part="throughput",
        case=case,
        figures=figures,
        took_s=1.0,
        others_cores=0.0,
        note=note,
    )


def test_a_ratio_compares_what_was_measured_in_the_same_round() -> None:
    # Given a machine that was twice as fast in the second round
    values = [
        value("kafka", 1, {"mb_per_s": 100}),
        value("ours", 1, {"mb_per_s": 120}),
        value("ours", 2, {"mb_per_s": 240}),
        value("kafka", 2, {"mb_per_s": 200}),
    ]

    # When it is summed up
    (line,) = lines(values, [FASTER])

    # Then figures differ, ratios do not
    assert line.spreads["ours"] == Spread(180, 120, 240)
    assert line.ratio == Spread(1.2, 1.2, 1.2)
    assert [verdict.kept for verdict in line.verdicts] == [True]


def test_a_median_decides_about_a_target() -> None:
    slow = Target(part="throughput", case="*", figure="p50_ms", at_most=5)
    values = [value("ours", at, {"p50_ms": ms}) for at, ms in ((1, 4), (2, 5), (3, 90))]

    (line,) = lines(values, [slow])

    assert line.verdicts[0].measured == Spread(5, 4, 90)
    assert line.verdicts[0].kept


def test_what_was_not_measured_is_missed() -> None:
    # Given a case that failed, and one that Apache Kafka alone has done
    values = [
        value("ours", 1, {}, note="MeasurementFailed: no answer"),
        value("ours", 1, {"mb_per_s": "too little"}, case="produce 100 B"),
        value("kafka", 1, {"mb_per_s": 100}, case="produce 10 KiB"),
    ]
    cases = [("throughput", name) for name in dict.fromkeys(one.case for one in values)]

    # When it is reported
    report = Report.of(values, [FASTER], cases, ["kafka", "ours"])
    page = report.markdown({}, {})

    # Then no target is kept, and the reasons stand there
    assert report.missed()
    assert "ours, round 1: throughput, produce 1 KiB: MeasurementFailed: no answer" in page
    assert "ours, round 1: throughput, produce 100 B: mb_per_s: too little" in page
    assert "not measured: throughput, produce 100 B, mb_per_s" in page
    assert "targets: 0 of 3 kept" in page


def test_targets_of_who_did_not_take_part_are_left_out() -> None:
    values = [value("ours", 1, {"mb_per_s": 100})]

    report = Report.of(values, [FASTER], [("throughput", "produce 1 KiB")], ["ours"])

    assert not report.missed()


def test_each_target_is_about_something_that_is_measured(tmp_path: Path) -> None:
    cases = cases_of(PARTS, Scale(quick=False, scratch=tmp_path))
    for target in read_targets():
        who = {target.contender, target.of} - {""}
        assert who <= CONTENDERS.keys(), target
        assert any(
            target.covers(case.part, case.name) and who <= set(case.contenders) for case in cases
        ), target


def test_no_two_cases_of_a_part_have_the_same_name(tmp_path: Path) -> None:
    cases = cases_of(PARTS, Scale(quick=False, scratch=tmp_path))
    assert len({(case.part, case.name) for case in cases}) == len(cases)
    assert {case.part for case in cases} == set(PARTS)
    assert {name for case in cases for name in case.contenders} <= CONTENDERS.keys()


def test_a_target_has_one_limit() -> None:
    with pytest.raises(ValueError, match="at_least"):
        Target(part="throughput", case="*", figure="s", at_least=1, at_most=2)


def test_who_begins_changes_from_round_to_round() -> None:
    assert order(["kafka", "ours"], 1) == ["kafka", "ours"]
    assert order(["kafka", "ours"], 2) == ["ours", "kafka"]


@pytest.mark.parametrize(
    ("measured", "text"),
    [(0.0123, "0.012"), (0.5, "0.50"), (12.34, "12.3"), (123.4, "123"), (12345.6, "12,346")],
)
def test_numbers_have_three_digits(measured: float, text: str) -> None:
    assert number(measured) == text


def test_a_report_is_a_table_and_plots(tmp_path: Path) -> None:
    # Given two rounds, and figures on both kinds of scale
    values = [
        value(who, at, {"mb_per_s": 100 * at + factor, "p50_ms": 10.0**factor}, case=case)
        for at in (1, 2)
        for who, factor in (("kafka", 1), ("ours", 2))
        for case in ("produce 1 KiB", "produce 100 B")
    ]
    values.append(value("ours", 2, {"p50_ms": 9_000}, case="produce 100 B"))
    cases = [("throughput", "produce 100 B"), ("throughput", "produce 1 KiB")]

    # When it is shown and drawn
    report = Report.of(values, [FASTER], cases, ["kafka", "ours"])
    output = StringIO()
    report.show(Console(file=output, width=180))
    files = draw(report.lines, report.contenders, tmp_path)

    # Then the cases stand in the order of the parts, and each figure has a plot
    shown = output.getvalue()
    assert shown.index("produce 100 B") < shown.index("produce 1 KiB")
    assert "targets: 2 of 2 kept" in shown
    assert [file.name for file in files] == [
        "ratios.png",
        "throughput-mb_per_s.png",
        "throughput-p50_ms.png",
    ]
    assert all(file.stat().st_size > 1_000 for file in files)


def test_cases_that_may_come_anywhere_come_at_another_place_in_each_round() -> None:
    # Given a part with a fixed order between two whose cases may come anywhere
    def case(name: str, *, anywhere: bool) -> Case:
        return Case(part="p", name=name, measure=lambda _: {}, contenders=(), anywhere=anywhere)

    cases = [case(name, anywhere=name not in "xy") for name in "abcdexyf"]

    # When three rounds are ordered
    names = ["".join(one.name for one in turned(cases, number, 3)) for number in (1, 2, 3)]

    # Then the first has them as they are, and the others begin elsewhere
    assert names == ["abcdexyf", "bcdeaxyf", "deabcxyf"]


def test_what_a_round_leaves_takes_no_room_but_deletes_no_file(tmp_path: Path) -> None:
    # Given a broker that has written files, and made links to some elsewhere
    other = tmp_path / "other"
    other.write_bytes(b"not the round's")
    with home_of_a_round(tmp_path) as home:
        (home / "data").mkdir()
        (home / "data" / "object").write_bytes(bytes(1_000))
        (home / "link").symlink_to(other)
        (home / "gone").symlink_to(tmp_path / "nothing")

    # Then they are there, empty, and nothing else has changed
    assert (home / "data" / "object").stat().st_size == 0
    assert other.read_bytes() == b"not the round's"
