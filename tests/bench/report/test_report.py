"""Reports as files and pages, from figures that were measured once on a tiny model."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from edgedec.bench.harness.journal import Journal
from edgedec.bench.harness.other_load import OtherLoad, slowdown
from edgedec.bench.harness.pairing import median_interval
from edgedec.bench.report.charts import HEIGHT, svg
from edgedec.bench.report.compared import Comparison
from edgedec.bench.report.contents import PARTS, SUMMARY, Report, _check
from edgedec.bench.report.folder import PartsFolder
from edgedec.bench.report.pages import html_of, markdown_of
from edgedec.bench.report.views import Chart
from edgedec.core.errors import BadFileError, NotFoundError, UsageError
from edgedec.system.linux import busy_s

EXAMPLE = Path(__file__).with_name("example.json")


@pytest.fixture
def facts() -> dict[str, Any]:
    found = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def report_of(facts: dict[str, Any]) -> Report:
    return Report(facts["conditions"], facts["parts"])


class Page(HTMLParser):
    """The tags of a page, each closed; the texts; and what it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.headings: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href") and value]
        assert tag not in ("script", "link", "img", "b")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("path", "circle")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def test_a_page_needs_nothing_else_and_shows_every_part(facts: dict[str, Any]) -> None:
    report = report_of(facts)
    text = html_of(report.title, report.busy, report.views())
    page = Page(text)
    assert page.headings == [SUMMARY, *(title for title, _ in PARTS.values())]
    assert all(place.startswith("#part-") for place in page.loads)
    assert "http" not in text.replace("http-equiv", "")
    assert "seven | &lt;b&gt;days&lt;/b&gt;" in text
    assert "prefers-color-scheme: dark" in text
    assert text.count("<svg") == 3
    assert "was busy" not in text


def test_markdown_has_the_same_figures(facts: dict[str, Any]) -> None:
    text = markdown_of("T", [], report_of(facts).views())
    assert r"| How many days are in a week? End with the number. | 7 | seven \| &lt;b>days&lt;/b> |" in text
    for line in text.splitlines():
        assert not line.startswith("|") or len(re.findall(r"(?<!\\)\|", line)) >= 3
    assert "| 32 | 1.76 |" in text


def test_estimates_and_measurements_of_energy_are_labelled(facts: dict[str, Any]) -> None:
    text = markdown_of("T", [], report_of(facts).views())
    assert "Energy: an estimate, not a measurement. RAPL: not there." in text
    assert "(behind right ones): 50 %, 25 %." in text
    assert "auto, energy a token, estimated" in [one.name for one in report_of(facts).figures()["Drafters"]]
    for side in facts["parts"]["drafts"]["result"]["energy"]["sides"].values():
        side |= {"estimated": False, "source": "RAPL (package-0, dram)"}
    text = markdown_of("T", [], report_of(facts).views())
    assert "Energy: above idle power, measured by RAPL (package-0, dram)." in text
    assert "auto, energy a token, measured" in [one.name for one in report_of(facts).figures()["Drafters"]]


def test_a_report_has_one_speed_for_one_thing(facts: dict[str, Any]) -> None:
    """Tokens per second stand once for each way, the same in the summary, the figures and the table."""
    report = report_of(facts)
    speeds = [one for some in report.figures().values() for one in some if one.unit == "tokens/s"]
    assert [one.name for one in speeds] == ["plain, speed", "auto, speed", "lookup, speed"]
    views = dict(report.views())
    in_short = dict(row for row in views[SUMMARY].tables[0].rows)
    assert in_short["speed, plain decoding"] == speeds[0].worded() == views["Drafters"].tables[0].rows[0][1]
    text = markdown_of("T", [], report.views())
    assert len(re.findall(r"tokens/s", text)) == 3 + 2  # a row for each way, and the summary's two


def test_a_busy_machine_is_said(facts: dict[str, Any]) -> None:
    facts["parts"]["passes"]["load_average"] = 3.0
    facts["parts"]["drafts"]["load_average_after"] = 2.0  # its own threads on two cores
    line = "Other programs ran beside these parts, which were slower for it: "
    assert report_of(facts).busy == (f"{line}Passes.",)
    facts["parts"]["drafts"]["load_average_after"] = 9.0
    assert report_of(facts).busy == (f"{line}Passes, Drafters.",)
    facts["parts"]["drafts"]["load_average"] = 0.25
    assert "load 0.2 before and 9.0 after." in dict(report_of(facts).views())["Drafters"].notes[-1]


def test_the_summary_has_the_most_telling_figures(facts: dict[str, Any]) -> None:
    (table,) = dict(report_of(facts).views())[SUMMARY].tables
    names = [name for name, _ in table.rows]
    for name in ("memory bandwidth", "memory of a chat", "speed, plain", "speed, with", "mJ", "roofline"):
        assert any(name in " ".join(row) for row in table.rows), name
    assert ("easy questions, right", "83 % (44 % to 97 %)") in table.rows
    del facts["parts"]["quality"]
    (table,) = dict(report_of(facts).views())[SUMMARY].tables
    assert len(table.rows) == len(names) - 1


def test_a_part_that_failed_says_why(facts: dict[str, Any]) -> None:
    facts["parts"]["drafts"] = {"absent": "no memory"}
    del facts["parts"]["quality"]
    views = dict(report_of(facts).views())
    assert views["Drafters"].lines == ("Not measured: no memory.",)
    assert views["Quality checks"].lines == ("Not measured: not reached.",)
    assert "Drafters" not in report_of(facts).figures()
    assert report_of(facts).absent == ("Drafters", "Quality checks")


def test_replies_that_differ_are_counted_and_said(facts: dict[str, Any]) -> None:
    facts["parts"]["drafts"]["result"]["differing_replies"]["edgedec+auto"]["replies"] = 1
    report = report_of(facts)
    assert report.differing_replies == 1
    line, *_ = dict(report.views())["Drafters"].lines
    assert line == "1 of 12 replies with drafts differ from plain decoding. This is a bug."


def test_a_comparison_has_ratios_verdicts_and_differences(facts: dict[str, Any]) -> None:
    first = report_of(json.loads(json.dumps(facts)))
    facts["conditions"]["cpu"] = "Other CPU"
    facts["parts"]["machine"]["result"]["machine"]["cores"] = 8
    runs = facts["parts"]["passes"]["result"]["ms_runs"]
    runs["1"] = [0.5 * one for one in runs["1"]]
    runs["2"] = [1.02 * one for one in runs["2"]]
    facts["parts"]["quality"]["result"]["right"] = 0
    del facts["parts"]["budgets"]
    del facts["parts"]["passes"]["result"]["passes"][-1]
    facts["parts"]["quality"]["load_average"] = 20.0
    found = Comparison(first, report_of(facts))
    assert found.differing()["cpu"] == ("Example CPU", "Other CPU")
    assert found.differing()["cores"] == (2, 8)
    passes = found.pairs()["Passes"]
    assert [(pair.ratio, pair.verdict) for pair in passes[:2]] == [
        (pytest.approx(0.5), "better"),
        (pytest.approx(1.02), "no difference seen"),
    ]
    assert found.pairs()["Quality checks"][0].verdict == "worse"
    assert found.alone() == (["Passes: pass over 32", "Speed over memory"], [])
    assert found.lines[1].endswith("ran beside these parts, which were slower for it: Quality checks.")
    assert found.differing()["load before Quality checks"][1] == 20.0
    text = markdown_of(found.title, found.lines, found.parts())
    assert "| pass over 1 | 0.302 ms (0.296 to 0.308) | 0.151 ms (0.148 to 0.154) | 0.5 | better |" in text
    assert "| cpu | Example CPU | Other CPU |" in text
    Page(html_of(found.title, found.lines, found.parts()))
    assert json.loads(json.dumps(found.as_json()))["figures"]["Passes"][0]["ratio"] == 0.5


def noisy(facts: dict[str, Any], seed: int, *, unrest: float = 0.3, faster: float = 1.0) -> Report:
    """A report of one build on one machine, whose other load changes from minute to minute.

    Each figure of time follows the load of its moment, as readings of the bandwidth do; ``unrest`` is the
    standard deviation of its logarithm. ``faster`` multiplies the speed of passes and replies.
    """
    dice, found = random.Random(seed), json.loads(json.dumps(facts))
    for part in found["parts"].values():
        part["readings"] = [10.0 * dice.lognormvariate(0.0, unrest) for _ in range(2)]

    def at_load(values: Sequence[float], factor: float) -> list[float]:
        load = dice.lognormvariate(0.0, unrest)
        return [one * factor * load * dice.lognormvariate(0.0, unrest / 3) for one in values]

    passes = found["parts"]["passes"]["result"]["ms_runs"]
    passes.update({name: at_load([0.3] * 9, 1 / faster) for name in passes})
    for runs in found["parts"]["drafts"]["result"]["runs"].values():
        runs["tokens_per_s"] = at_load([100.0] * len(runs["bytes"]), faster)
    return report_of(found)


def verdicts(first: Report, second: Report) -> list[str]:
    """Verdicts on figures of time."""
    found = Comparison(first, second)
    return [pair.verdict for pairs in found.pairs().values() for pair in pairs if pair.first.timed]


def test_two_reports_of_one_noisy_machine_show_no_difference(facts: dict[str, Any]) -> None:
    """Ratios of single figures are 0.5 to 2 here; 95 % intervals widened by the unrest meet."""
    found, ratios = [], []
    for seed in range(40):
        pair = noisy(facts, 2 * seed), noisy(facts, 2 * seed + 1)
        found += verdicts(*pair)
        every = [one for some in Comparison(*pair).pairs().values() for one in some]
        ratios += [one.ratio for one in every if one.first.timed and one.ratio]
    assert min(ratios) < 0.62
    assert max(ratios) > 1.6
    assert found.count("no difference seen") > 0.99 * len(found)


def test_a_real_doubling_is_seen(facts: dict[str, Any]) -> None:
    for seed in range(10):
        twice = Comparison(noisy(facts, seed, unrest=0.03), noisy(facts, seed + 99, unrest=0.03, faster=2.0))
        shown = {pair.first.name: pair.verdict for some in twice.pairs().values() for pair in some}
        assert shown["pass over 1"] == shown["plain, speed"] == shown["auto, speed"] == "better"
        back = Comparison(twice.second, twice.first)
        assert {pair.verdict for pair in back.pairs()["Passes"]} == {"worse"}
        assert back.pairs()["Memory plan"][0].verdict == "no difference seen"


def test_another_machine_is_compared_by_the_unrest_of_each(facts: dict[str, Any]) -> None:
    first, second = noisy(facts, 1, unrest=0.02), noisy(facts, 2, unrest=0.02, faster=2.0)
    for part in second.parts.values():
        part["readings"][:] = [20.0, 20.1]  # type: ignore[index]
    assert Comparison(first, second).unrest > 1.9
    other = Report({**second.conditions, "cpu": "Other CPU"}, second.parts)
    assert Comparison(first, other).unrest < 1.2
    assert "better" in verdicts(first, other)


def test_others_that_took_the_cores_are_taken_into_account(facts: dict[str, Any]) -> None:
    """One program beside two threads takes a quarter of two cores, which can make passes twice as slow."""
    quiet, slow = noisy(facts, 1, unrest=0.02), noisy(facts, 2, unrest=0.02, faster=0.6)
    assert "worse" in verdicts(quiet, slow)
    for part in slow.parts.values():
        part["others"] = 0.3  # type: ignore[index]
    assert {*verdicts(quiet, slow)} == {"no difference seen"}
    assert slow.busy[0].startswith("Other programs ran beside these parts")
    quick = noisy(facts, 3, unrest=0.02, faster=2.0)
    for part in quick.parts.values():
        part["others"] = 0.3  # type: ignore[index]
    assert "better" in verdicts(quiet, quick)  # others can only have slowed it down


def test_processor_time_of_others_is_all_but_ones_own(tmp_path: Path) -> None:
    stat, ticks = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    cores = sorted(os.sched_getaffinity(0))
    own, now = 100.0, 50.0

    def write(seconds: float) -> None:
        fields = " ".join(map(str, (round(seconds * ticks), 0, 0, 777, 0, 0, 0, 0)))
        stat.write_text(f"cpu 1 2 3\ncpu{cores[0]} {fields}\nintr 5\n", encoding="ascii")

    write(1000.0)
    load = OtherLoad(partial(busy_s, stat), lambda: own, lambda: now)
    write(1008.0)
    own, now = 103.0, 60.0
    assert load.share(2) == pytest.approx(5.0 / 20.0)
    assert slowdown(load.share(2), 2) == pytest.approx(1 + 2 / 3)
    assert slowdown(None, 2) == slowdown(0.0, 2) == 1.0
    assert OtherLoad(partial(busy_s, tmp_path / "none")).share(2) is None


def test_the_interval_of_a_median_is_that_of_order_statistics() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval(range(1, 10)) == (2, 8)  # 96.1 %
    assert median_interval(range(1, 16)) == (4, 12)  # 96.5 %
    dice = random.Random(0)
    held = 0
    for _ in range(500):
        low, high = median_interval([dice.lognormvariate(0.0, 1.0) for _ in range(9)])
        held += low <= 1.0 <= high
    assert held > 0.94 * 500


def test_a_report_is_read_from_its_folder_and_its_file(facts: dict[str, Any], tmp_path: Path) -> None:
    report_of(facts).write(tmp_path)
    for path in (tmp_path, tmp_path / "report.json"):
        assert Report.read(path) == report_of(facts)


def test_other_files_are_no_reports(facts: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no report"):
        Report.read(tmp_path)
    for text in ("", "[1]", "{}", '{"format": 1}', '{"format": 1, "conditions": {}, "parts": {"passes": 7}}'):
        (tmp_path / "report.json").write_text(text)
        with pytest.raises(BadFileError):
            Report.read(tmp_path)
    facts["format"] = 3
    (tmp_path / "report.json").write_text(json.dumps(facts))
    with pytest.raises(BadFileError, match="is a report of format 3; this version reads format 2"):
        Report.read(tmp_path)
    del facts["parts"]["passes"]["result"]["ms_runs"]["1"]
    facts["format"] = 2
    (tmp_path / "report.json").write_text(json.dumps(facts))
    with pytest.raises(BadFileError, match="is no report"):
        Report.read(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"result": {}}', '{"at": "", "result": {"passes": 7}}'])
def test_a_damaged_part_is_measured_again(text: str, facts: dict[str, Any], tmp_path: Path) -> None:
    kind = PARTS["passes"][1]
    folder = PartsFolder(tmp_path, {"model": "m"})
    (tmp_path / "parts" / "passes.json").write_text(text)
    result = facts["parts"]["passes"]["result"]
    assert folder.part("passes", lambda: result, partial(_check, kind))["result"] == result
    again = folder.part("passes", dict, partial(_check, kind))
    assert again["result"] == result


def test_a_folder_of_another_report_or_of_other_files_is_left_alone(tmp_path: Path) -> None:
    PartsFolder(tmp_path / "a", {"model": "m", "threads": 1})
    with pytest.raises(UsageError, match="other conditions: threads 1, now 2"):
        PartsFolder(tmp_path / "a", {"model": "m", "threads": 2})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "diary.txt").write_text("dear")
    with pytest.raises(UsageError, match=r"holds other files, such as diary\.txt"):
        PartsFolder(tmp_path / "b", {"model": "m"})


@pytest.mark.parametrize("place", ["conditions.json.partial-0a1b2c3d", "parts/passes.json.partial-0a1b2c3d"])
def test_a_report_killed_while_it_writes_goes_on(place: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / place).write_text('{"mod')
    folder = PartsFolder(tmp_path, {"model": "m"})
    assert folder.kept() == []
    assert folder.part("passes", lambda: {"value": 7})["result"] == {"value": 7}


def test_replies_killed_in_their_first_line_begin_anew(tmp_path: Path) -> None:
    file = tmp_path / "drafts.jsonl"
    Journal.resume({"model": "m"}, file)
    first = file.read_bytes()
    for length in (0, 1, len(first) // 2, len(first) - 1):
        file.write_bytes(first[:length])
        assert Journal.resume({"model": "m"}, file).answers == {}
        assert file.read_bytes() == first
    file.write_bytes(b"dear diary")
    with pytest.raises(BadFileError):
        Journal.resume({"model": "m"}, file)
    assert file.read_bytes() == b"dear diary"


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "line", [[(1.0, 1.0)], [(1.0, 2.0), (1.0, 2.0)], [(1.0, 3.0), (64.0, 9e9)], [(2.5, 1e-7)]]
)
def test_any_line_is_drawn_within_its_picture(line: list[tuple[float, float]], log: bool) -> None:
    picture = ElementTree.fromstring(svg(Chart("T", "<x>", "y & z", {"a <b>": line}, log, ("a <b>",))))
    assert "a <b>" in "".join(picture.itertext())
    for circle in picture.iter("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= 480
        assert 0 <= float(circle.attrib["cy"]) <= HEIGHT
