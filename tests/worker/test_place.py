"""Where checkpoints may be kept: what is refused, in one line, and what it costs who uses no URL."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.worker import place
from regroup.worker.place import place_of


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/data/checkpoints", "/data/checkpoints"),
        ("~/checkpoints", f"{Path.home()}/checkpoints"),
        ("checkpoints/", f"{Path.cwd()}/checkpoints"),
        ("./s3:kept", f"{Path.cwd()}/s3:kept"),
        ("~/kept ünder", f"{Path.home()}/kept ünder"),
        ("file:///data/checkpoints", "/data/checkpoints"),
        ("local:///data/checkpoints", "/data/checkpoints"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
    ],
)
def test_a_place_is_an_absolute_folder_or_a_url(text: str, meant: str) -> None:
    assert place_of(text) == meant


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must be a folder or a URL"),
        ("s3://bucket\n", "must be a folder or a URL"),
        ("sftp://me:hunter2@host/folder", "must hold no user and password"),
        ("sftp://me:hunter/2@host/folder", "must hold no user and password"),
        ("s3://bucket?key=1", "one plain URL"),
        ("simplecache::s3://bucket", "one plain URL"),
        ("memory://folder", "must outlive the process"),
        ("s3:///", "must name a bucket"),
        ("s4://bucket", "fsspec knows no storage named s4://$"),
        ("S3://bucket", "fsspec knows no storage named S3://; did you mean s3://"),
        ("nothing-like-it://x", "fsspec knows no storage named nothing-like-it://$"),
        ("s3:/bucket", "must be a URL, which begins with s3://, or a folder"),
        ("S3:bucket", "must be a URL, which begins with s3://, or a folder"),
        ("~nobody-here/kept", "~nobody-here is nobody's home on this machine"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused_in_one_line_without_its_password(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        place_of(text)
    assert "\n" not in str(error.value)
    assert "hunter" not in str(error.value)


def test_without_s3fs_it_says_which_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"s3://.* not installed.*pip install 'regroup\[s3\]'"):
        place_of("s3://bucket")


@pytest.mark.parametrize(("text", "imported"), [("/folder", "[]"), ("s3://bucket", "['fsspec']")])
def test_a_process_that_uses_no_url_imports_nothing_for_it(text: str, imported: str) -> None:
    code = f"""if True:
        import sys
        import regroup.worker.serving, regroup.worker.process
        from regroup.worker.place import place_of
        place_of({text!r})
        print([name for name in ("fsspec", "s3fs", "aiobotocore") if name in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, env=dict(os.environ)
    )
    assert done.stdout.strip() == imported, done.stderr
