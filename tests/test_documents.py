"""The documents as a site: whole, and with nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal import ROOT


def _build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.release
def test_the_site_is_built_without_a_broken_link_and_fetches_nothing(tmp_path: Path) -> None:
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")

    built = _build(tmp_path)

    assert built.returncode == 0, built.stdout + built.stderr
    site = tmp_path / "dist/docs"
    assert (site / "search.json").is_file() or list(site.rglob("search*.json"))
    fetched = [
        (page.name, address)
        for page in site.rglob("*.html")
        for address in re.findall(
            r'<(?:script|img)[^>]*src="?(https?://[^" >]+)|<link[^>]*rel="?stylesheet"?[^>]*href="?(https?://[^" >]+)',
            page.read_text(),
        )
    ]
    assert fetched == []
    pages = {str(each.relative_to(ROOT / "docs")) for each in (ROOT / "docs").rglob("*.md")}
    assert pages == set(re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text()))

    with (tmp_path / "docs/demo.md").open("a") as page:
        page.write("\n[nowhere](no-such-page.md)\n")
    broken = _build(tmp_path)

    assert broken.returncode != 0
    assert "page does not exist" in broken.stdout + broken.stderr
