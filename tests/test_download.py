import errno
import hashlib
import http.client
import os
import re
import socket
import ssl
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError

import pytest

from starcast import download as module
from starcast.download import download, published_md5, unpack
from starcast.errors import DownloadError, FileError, FileFormatError

CONTENT = bytes(range(256)) * 1024  # four blocks
MD5 = hashlib.md5(CONTENT).hexdigest()
VERSION, NEWER = "Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:37 GMT"


class Server(ThreadingHTTPServer):
    """A web server on this machine that serves `content` at any address, as badly as it is told to."""

    daemon_threads = True
    content = CONTENT
    version: str | None = VERSION
    honours_range = True
    honours_if_range = True
    says_length = True
    refuses_range = False
    content_range = ""
    always_partial = False
    cut_after: int | None = None
    cuts_left = 0
    statuses: list[int]
    requests: list[dict[str, str]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/films.zip"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.requests.append(dict(self.headers.items()))
        if server.statuses:
            return self.send_error(server.statuses.pop(0))
        start = self.range_start()
        if start is not None and server.refuses_range:
            return self.send_error(416)
        partial = start is not None or server.always_partial
        body = server.content[start or 0 :]
        self.send_response(206 if partial else 200)
        if partial:
            whole = f"bytes {start or 0}-{len(server.content) - 1}/{len(server.content)}"
            self.send_header("Content-Range", server.content_range or whole)
        if server.version:
            self.send_header("Last-Modified", server.version)
        if server.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.cuts_left:
            server.cuts_left -= 1
            body = body[: server.cut_after]
        self.wfile.write(body)
        return None

    def range_start(self) -> int | None:
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if found is None or not self.server.honours_range:
            return None
        if self.server.honours_if_range and self.headers.get("If-Range") != self.server.version:
            return None
        return int(found[1])

    def log_message(self, format: str, *args: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server(("127.0.0.1", 0), Handler)
    server.statuses, server.requests = [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def cut(target: Path, size: int = 1000, version: int = 784111777) -> Path:
    """Leave what an interrupted download of the given version leaves."""
    part = target.with_name(target.name + ".part")
    part.write_bytes(CONTENT[:size])
    os.utime(part, (version, version))
    return part


def test_a_file_arrives_whole_and_leaves_no_part(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "films.zip"
    assert download(server.url, target, md5=MD5.upper()) == target
    assert target.read_bytes() == CONTENT
    assert [file.name for file in target.parent.iterdir()] == ["films.zip"]


def test_nothing_is_printed_off_a_terminal(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    download(server.url, tmp_path / "a")
    assert capfd.readouterr() == ("", "")


def test_the_progress_bar_goes_to_stderr_when_asked_for(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    download(server.url, tmp_path / "films.zip", progress=True)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "films.zip" in captured.err
    assert "262.1" in captured.err


def test_resumes_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    server.cut_after, server.cuts_left = 100_000, 1
    with pytest.raises(DownloadError, match=r"in 1 attempt: 100,000 of 262,144 bytes came\. Run again to continue\."):
        download(server.url, tmp_path / "a", n_tries=1)
    assert (tmp_path / "a.part").stat().st_size == 100_000
    assert download(server.url, tmp_path / "a", md5=MD5).read_bytes() == CONTENT
    assert [request.get("Range") for request in server.requests] == [None, "bytes=100000-"]
    assert server.requests[1]["If-Range"] == VERSION


def test_a_broken_connection_is_taken_up_again(server: Server, tmp_path: Path) -> None:
    server.cut_after, server.cuts_left = 70_000, 3
    assert download(server.url, tmp_path / "a", md5=MD5, pause=0).read_bytes() == CONTENT
    assert [request.get("Range", "")[6:] for request in server.requests] == ["", "70000-", "140000-", "210000-"]


def test_starts_again_when_the_server_ignores_ranges(server: Server, tmp_path: Path) -> None:
    server.honours_range = False
    cut(tmp_path / "a").write_bytes(b"rubbish")
    assert download(server.url, tmp_path / "a", n_tries=1).read_bytes() == CONTENT


def test_starts_again_when_the_file_has_changed(server: Server, tmp_path: Path) -> None:
    server.version = NEWER
    cut(tmp_path / "a").write_bytes(b"old")
    assert download(server.url, tmp_path / "a", n_tries=1).read_bytes() == CONTENT


def test_starts_again_when_a_server_that_ignores_if_range_has_a_newer_file(server: Server, tmp_path: Path) -> None:
    server.version, server.honours_if_range = NEWER, False
    cut(tmp_path / "a")
    server.content = CONTENT[::-1]
    assert download(server.url, tmp_path / "a").read_bytes() == CONTENT[::-1]
    assert ["Range" in request for request in server.requests] == [True, False]


def test_resumes_from_a_server_that_gives_no_date(server: Server, tmp_path: Path) -> None:
    server.version, server.honours_if_range = None, False
    cut(tmp_path / "a")
    assert download(server.url, tmp_path / "a", md5=MD5).read_bytes() == CONTENT
    assert ["Range" in request for request in server.requests] == [True]


def test_starts_again_when_the_range_is_refused(server: Server, tmp_path: Path) -> None:
    server.refuses_range = True
    cut(tmp_path / "a", 999)
    assert download(server.url, tmp_path / "a", n_tries=1).read_bytes() == CONTENT


@pytest.mark.parametrize("content_range", ["bytes 5-262143/262144", "nonsense"])
def test_starts_again_when_the_wrong_range_comes(server: Server, tmp_path: Path, content_range: str) -> None:
    server.content_range = content_range
    cut(tmp_path / "a")
    assert download(server.url, tmp_path / "a", md5=MD5, n_tries=1).read_bytes() == CONTENT
    assert ["Range" in request for request in server.requests] == [True, False]


def test_a_range_of_a_file_of_unknown_length_is_taken(server: Server, tmp_path: Path) -> None:
    server.content_range = "bytes 1000-262143/*"
    cut(tmp_path / "a")
    assert download(server.url, tmp_path / "a", md5=MD5).read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_a_part_that_was_not_asked_for_is_refused(server: Server, tmp_path: Path) -> None:
    server.always_partial = True
    server.content_range = "bytes 7-262143/262144"
    with pytest.raises(DownloadError, match=r"the server sent a part when asked for the whole\.$"):
        download(server.url, tmp_path / "a")


def test_a_part_that_is_too_long_is_thrown_away(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_blocks", lambda response: iter([CONTENT, b"!"]))
    with pytest.raises(DownloadError, match="262,145 of 262,144 bytes came"):
        download(server.url, tmp_path / "a", n_tries=1)
    assert list(tmp_path.iterdir()) == []


def test_a_length_that_is_not_told_is_not_checked(server: Server, tmp_path: Path) -> None:
    server.says_length = False
    assert download(server.url, tmp_path / "a").read_bytes() == CONTENT


def test_a_missing_file_is_not_tried_again(server: Server, tmp_path: Path) -> None:
    server.statuses = [404, 200]
    with pytest.raises(DownloadError, match=r"films\.zip could not be fetched: the server answered 404 Not Found\.$"):
        download(server.url, tmp_path / "a")
    assert len(server.requests) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_busy_server_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.statuses = [500, 503, 429]
    assert download(server.url, tmp_path / "a", pause=0).read_bytes() == CONTENT


def test_gives_up_after_a_bounded_number_of_tries(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    server.statuses = [500] * 9
    with pytest.raises(
        DownloadError, match=r"in 4 attempts: the server answered 500 Internal Server Error\. Run again"
    ):
        download(server.url, tmp_path / "a")
    assert pauses == [1, 2, 4]
    assert len(server.requests) == 4


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(
        DownloadError, match=rf"must have the MD5 checksum 0{{32}}, got {MD5}\. It was removed; run again\."
    ):
        download(server.url, tmp_path / "a", md5="0" * 32)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_survives_a_failing_download(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(DownloadError):
        download(server.url, tmp_path / "a", md5="0" * 32)
    assert (tmp_path / "a").read_text() == "old"


def test_ctrl_c_leaves_only_a_part_to_resume_from(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = http.client.HTTPResponse.read
    calls = iter(range(99))

    def interrupted(response: http.client.HTTPResponse, amount: int | None = None) -> bytes:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return read(response, amount)

    with monkeypatch.context() as patch:
        patch.setattr(http.client.HTTPResponse, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            download(server.url, tmp_path / "a")
    assert {file.name: file.stat().st_size for file in tmp_path.iterdir()} == {"a.part": 2 * module.BLOCK}
    assert download(server.url, tmp_path / "a", md5=MD5).read_bytes() == CONTENT
    assert server.requests[-1]["Range"] == f"bytes={2 * module.BLOCK}-"


def test_a_connection_that_breaks_while_reading_is_taken_up_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = http.client.HTTPResponse.read
    errors = iter([ConnectionResetError("reset by peer"), http.client.IncompleteRead(b""), TimeoutError()])

    def breaking(response: http.client.HTTPResponse, amount: int | None = None) -> bytes:
        error = next(errors, None)
        if error is not None:
            raise error
        return read(response, amount)

    monkeypatch.setattr(http.client.HTTPResponse, "read", breaking)
    assert download(server.url, tmp_path / "a", pause=0).read_bytes() == CONTENT


def raising(error: Exception) -> Callable[..., None]:
    def urlopen(*args: object, **options: object) -> None:
        raise error

    return urlopen


@pytest.mark.parametrize(
    "reason", [socket.gaierror(-2, "Name or service not known"), ssl.SSLCertVerificationError(1, "certificate expired")]
)
def test_offline_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: OSError) -> None:
    monkeypatch.setattr(module, "urlopen", raising(URLError(reason)))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waited"))
    with pytest.raises(DownloadError, match=r"https://a\.example/x could not be fetched: .*(not known|expired).*\.$"):
        download("https://a.example/x", tmp_path / "a")


def test_a_refused_connection_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/x"
    with pytest.raises(DownloadError, match=r"in 2 attempts: .*[Cc]onnection refused"):
        download(url, tmp_path / "a", n_tries=2, pause=0)


def test_a_silent_server_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(DownloadError, match="in 1 attempt: timed out"):
            download(f"http://127.0.0.1:{silent.getsockname()[1]}/x", tmp_path / "a", n_tries=1, timeout=0.05)


def test_a_full_disk_is_told_in_one_line(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(FileError, match=r"/a cannot be written: No space left on device\. Make room or get the right"):
        download(server.url, tmp_path / "a")


@pytest.mark.parametrize("form", [f"{MD5}  films.zip\n", f"MD5 (films.zip) = {MD5.upper()}\n"])
def test_published_checksums_are_read_in_both_forms(server: Server, form: str) -> None:
    server.content = form.encode()
    assert published_md5(server.url) == MD5


def test_a_page_that_is_no_checksum_is_refused(server: Server) -> None:
    server.content = b"<html>moved"
    with pytest.raises(DownloadError, match=r"must hold a checksum of 32 hexadecimal digits, got '<html>moved'\. Try"):
        published_md5(server.url)


def archive(path: Path, entries: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in entries.items():
            file.writestr(name, text)
    return path


def test_a_folder_inside_an_archive_is_unpacked(tmp_path: Path) -> None:
    source = archive(tmp_path / "a.zip", {"ml/u.data": "1 2 3", "ml/deep/x": "y"})
    folder = unpack(source, tmp_path / "ml-100k", inside="ml")
    assert (folder / "u.data").read_text() == "1 2 3"
    assert (folder / "deep" / "x").read_text() == "y"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.zip", "ml-100k"]


def test_a_flat_archive_is_unpacked_as_the_folder(tmp_path: Path) -> None:
    unpack(archive(tmp_path / "a.zip", {"ratings.txt": "1 2 3"}), tmp_path / "filmtrust")
    assert (tmp_path / "filmtrust" / "ratings.txt").read_text() == "1 2 3"


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/evil", "..\\evil", "C:\\evil", "C:evil"])
def test_an_entry_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    source = archive(tmp_path / "a.zip", {"good": "1", name: "2"})
    with pytest.raises(
        FileFormatError, match=r"a\.zip must stay in its folder, but holds '.*evil'\. Do not trust it\."
    ):
        unpack(source, tmp_path / "deep")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zip"]


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("<html>")
    with pytest.raises(FileFormatError, match=r"a\.zip is not a sound zip archive \(.*\)\. Remove it and run again\."):
        unpack(tmp_path / "a.zip", tmp_path / "b")


def test_a_damaged_archive_leaves_no_folder(tmp_path: Path) -> None:
    source = archive(tmp_path / "a.zip", {"u.data": "1 2 3 " * 1000})
    content = bytearray(source.read_bytes())
    content[45] ^= 255
    source.write_bytes(content)
    with pytest.raises(FileFormatError, match="is not a sound zip archive"):
        unpack(source, tmp_path / "b")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zip"]


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    source = archive(tmp_path / "a.zip", {"other/u.data": "1 2 3"})
    with pytest.raises(FileFormatError, match=r"must hold a folder ml-1m, but holds other\. Get the right archive\."):
        unpack(source, tmp_path / "ml-1m", inside="ml-1m")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zip"]


def test_ctrl_c_while_unpacking_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(entries: zipfile.ZipFile, folder: Path) -> None:
        (folder / "u.data").write_text("half")
        raise KeyboardInterrupt

    source = archive(tmp_path / "a.zip", {"u.data": "1 2 3"})
    monkeypatch.setattr(zipfile.ZipFile, "extractall", interrupted)
    with pytest.raises(KeyboardInterrupt):
        unpack(source, tmp_path / "b")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zip"]


def test_a_folder_that_another_process_made_meanwhile_is_kept(tmp_path: Path) -> None:
    source = archive(tmp_path / "a.zip", {"u.data": "1 2 3"})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "u.data").write_text("theirs")
    assert (unpack(source, tmp_path / "b") / "u.data").read_text() == "theirs"


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    source = archive(tmp_path / "a.zip", {"u.data": "1 2 3"})
    with pytest.raises(
        FileError, match=r"a\.zip cannot be unpacked as .*: No such file or directory\. Make room or get"
    ):
        unpack(source, tmp_path / "missing" / "b")


def test_a_rename_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, target: Path) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    source = archive(tmp_path / "a.zip", {"u.data": "1 2 3"})
    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(FileError, match="Permission denied"):
        unpack(source, tmp_path / "b")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zip"]
