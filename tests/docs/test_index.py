"""The path through the course: every chapter is in one part, and the times are those of the chapters."""

from __future__ import annotations

import re

from tests.source_files import ROOT

INDEX = (ROOT / "docs" / "index.md").read_text("utf-8")
CHAPTERS = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs" / "course").glob("*.md")}
PARTS = {
    name: re.findall(r"^course/(\w+)$", chapters, flags=re.MULTILINE)
    for name, chapters in re.findall(r":caption: (.+)\n:maxdepth: 1\n\n((?:course/\w+\n)+)```", INDEX)
}


IN_WORDS = {36: "thirty-six"}


def minutes(chapter: str) -> int:
    found = re.search(r"^\*About (\d+) minutes", CHAPTERS[chapter], flags=re.MULTILINE)
    return int(found[1]) if found else 60  # "an hour to read in full"


def test_every_chapter_is_in_one_part() -> None:
    assert sorted(chapter for chapters in PARTS.values() for chapter in chapters) == sorted(CHAPTERS)
    assert "an hour to read in full" in CHAPTERS["one_file"]
    listed = re.findall(r"^- \*\*(.+?)\*\*: (\[.*(?:\n  .*)*)", INDEX, flags=re.MULTILINE)
    chapters = {name: re.findall(r"\(course/(\w+)\.md\)", links) for name, links in listed}
    assert {name: found for name, found in chapters.items() if found and name in PARTS} == PARTS
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"a course of {IN_WORDS[len(CHAPTERS)]} chapters" in readme


def test_a_part_takes_the_time_of_its_chapters() -> None:
    table = dict(re.findall(r"^\| (\w[\w ]+?) \| (\d+) \|", INDEX, flags=re.MULTILINE))
    assert table == {name: str(sum(map(minutes, chapters))) for name, chapters in PARTS.items()}
    hours = sum(minutes(chapter) for chapter in CHAPTERS) / 60
    assert f"{hours:.1f} hours of reading" in INDEX


def test_the_afternoon_takes_the_time_that_it_says() -> None:
    says, chapters = re.findall(r"\*\*An afternoon\*\*, (\d+) minutes: (.*?)\n-", INDEX, flags=re.DOTALL)[0]
    way = re.findall(r"\(course/(\w+)\.md\)", chapters)
    assert len(way) == 7
    assert int(says) == sum(map(minutes, way))


def test_every_part_has_a_picture_of_one_of_its_chapters() -> None:
    rows = dict(
        re.findall(r'^\| (\w[\w ]+?) \| \d+ \|.*<img src="pictures/course/(\w+)\.svg" width', INDEX, flags=re.MULTILINE)
    )
    table = re.findall(r"^\| (\w[\w ]+?) \| \d+ \|", INDEX, flags=re.MULTILINE)
    assert list(rows) == table
    for part, chapter in rows.items():
        assert chapter in PARTS[part]
        assert (ROOT / "docs" / "pictures" / "course" / f"{chapter}.svg").exists()
