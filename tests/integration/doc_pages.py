#!/usr/bin/env python3
"""Checks the Markdown pages of the repository, which is the argument.

Links and anchors lead somewhere, paths in backticks exist, and so do pages that code names. Bold text ends in its
paragraph, words are those of the glossary, and every image of docs/images is shown.
"""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:cmake|configs|docs|examples|harness|models|plugins|python|scenes|scripts|tests)/[\w./-]+)`")
PAGE_IN_CODE = re.compile(r"(?<![\w./])docs/[\w/]+\.md")
# docs/glossary.md has the words to use; the second page is written by the program
OTHER_WORDS = re.compile(r"\b(data[- ]sets?|pictures?|rooms?)\b", re.IGNORECASE)
MAY_USE_THEM = {"docs/glossary.md", "docs/config_reference.md", "CHANGELOG.md"}
CODE = {".cc", ".cmake", ".h", ".json", ".py", ".sh", ".txt"}


def without_code_blocks(text):
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """GitHub's names of the headings."""
    titles = re.findall(r"^#+ +(.*)$", without_code_blocks(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def faults_of_page(root, page):
    text = without_code_blocks(page.read_text())
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / unquote(path)).resolve() if path else page
        if not file.exists():
            yield f"no file {path}"
        elif anchor and anchor not in anchors(file):
            yield f"no heading #{anchor} in {path or 'this page'}"
    for path in PATH.findall(text):
        if not any((folder / path).exists() or list(folder.glob(path + ".*")) for folder in (root, page.parent)):
            yield f"no path {path}"
    if str(page.relative_to(root)) not in MAY_USE_THEM:
        for word in OTHER_WORDS.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)):
            yield f"'{word}': docs/glossary.md has another word for it"
    for paragraph in re.split(r"\n\s*\n|\n(?= *(?:- |\d+\. |\|))", re.sub(r"`[^`]*`", "", text)):
        if paragraph.count("**") % 2 or re.search(r"(?<!\*)\*\*\*(?!\*)", paragraph):
            yield f"bold text without an end: {paragraph.strip()[:60]}"


def main():
    root = Path(sys.argv[1]).resolve()
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                            capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        print("this is no git repository")
        return 77  # skipped
    files = [root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()]
    pages = [file for file in files if file.suffix == ".md"]
    faults = [f"{page.relative_to(root)}: {fault}" for page in pages for fault in faults_of_page(root, page)]
    everything = "".join(page.read_text() for page in pages)
    faults += [f"docs/images/{image.name}: no page shows it" for image in sorted((root / "docs/images").iterdir())
               if f"images/{image.name}" not in everything]
    for file in files:
        if file.suffix in CODE and file.stat().st_size < 1 << 20 and "/data/" not in str(file):
            for name in set(PAGE_IN_CODE.findall(file.read_text(errors="ignore"))):
                if not (root / name).exists():
                    faults.append(f"{file.relative_to(root)}: no page {name}")
    print("\n".join(faults) or f"{len(pages)} pages")
    return 1 if faults or len(pages) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
