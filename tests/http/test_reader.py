"""Bytes in, requests and refusals out: RFC 9112 as tables, each row whole and cut at every byte."""

import pytest

from a2a_bridge.http.reader import MAX_BODY_BYTES, MAX_HEAD_BYTES, Request, RequestReader
from a2a_bridge.http.reply import (
    CONTINUE,
    HEAD_TOO_LARGE,
    MALFORMED_HTTP,
    METHOD_NOT_ALLOWED,
    TOO_LARGE,
    UNAUTHORIZED,
    Headers,
    Reply,
)

POST = b"POST / HTTP/1.1\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def admit(method: str, headers: Headers) -> Reply | None:
    """A plain stand-in for the endpoint's own."""
    if method != "POST":
        return METHOD_NOT_ALLOWED
    return UNAUTHORIZED if b"stranger" in headers else None


def results(pieces: list[bytes]) -> list[Request | Reply]:
    """What a reader makes of these pieces, up to the first reply that ends the connection."""
    reader = RequestReader(admit)
    found: list[Request | Reply] = []
    for piece in pieces:
        reader.feed(piece)
        while (one := reader.next()) is not None:
            found.append(one)
            if isinstance(one, Reply) and one.close:
                return found
    return found


def every_cut(data: bytes) -> list[list[bytes]]:
    """The bytes whole, one by one, and in two pieces at each position."""
    return [[data], [data[at : at + 1] for at in range(len(data))]] + [
        [data[:at], data[at:]] for at in range(1, len(data))
    ]


def bodies(data: bytes) -> list[bytes]:
    """The bodies of the requests, which are the same however the bytes are cut."""
    found = {tuple(one.body for one in results(pieces) if isinstance(one, Request)) for pieces in every_cut(data)}
    assert len(found) == 1, found
    return list(found.pop())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (POST + b"Content-Length: 2\r\n\r\n{}", [b"{}"]),
        (POST + b"\r\n", [b""]),
        (POST + b"Content-Length: 2 \t\r\n\r\n{}" * 1, [b"{}"]),
        ((POST + b"Content-Length: 2\r\n\r\n{}") * 3, [b"{}"] * 3),
        (b"\r\n\r\n" + POST + b"Content-Length: 2\r\n\r\n{}\r\n" + POST + b"\r\n", [b"{}", b""]),
        (CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", [b"{}"]),
        (CHUNKED + b"1\r\n{\r\n01;a=b;c=\"d\"\r\n}\r\n0;e\r\nT: v\r\nU: w\r\n\r\n" + POST + b"\r\n", [b"{}", b""]),
        (CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n" + CHUNKED + b"0\r\n\r\n", [b"\r\n\r\n", b""]),
        (POST + b"Connection: upgrade\r\nUPGRADE: h2c\r\nContent-Length: 2\r\n\r\n{}" + POST + b"\r\n", [b"{}", b""]),
        (POST + b"Upgrade: w\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", [b"x"]),
        (b"POST \xff?#x HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", [b"x"]),
        (b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", [b"x"]),
    ],
    ids=lambda value: repr(value)[:60],
)  # fmt: skip
def test_bodies_however_the_bytes_are_cut(data: bytes, expected: list[bytes]) -> None:
    assert bodies(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"POST\r\n\r\n",
        b"POST  / HTTP/1.1\r\n\r\n",
        b"POST / x HTTP/1.1\r\n\r\n",
        b"POST / HTTP/2.0\r\n\r\n",
        b"POST / HTTP/1.2\r\n\r\n",
        b"POST / RTSP/1.0\r\n\r\n",
        b"GET /\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\n\n",
        b"POST /\x00 HTTP/1.1\r\n\r\n",
        POST + b"A: b\n\r\n\r\n",
        POST + b"A: b\rc\r\n\r\n",
        POST + b"A: b\x00c\r\n\r\n",
        POST + b"A : b\r\n\r\n",
        POST + b"A: b\r\n c\r\n\r\n",
        POST + b"\r\n A: b\r\n\r\n",
        POST + b"bad header\r\n\r\n",
        POST + b": b\r\n\r\n",
        POST + b"Content-Length: abc\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: +1\r\n\r\n",
        POST + b"Content-Length:\r\n\r\n",
        POST + b"Content-Length: 1, 1\r\n\r\n",
        POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        POST + b"Transfer-Encoding: identity\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"1\nx\r\n0\r\n\r\n",
        CHUNKED + b"x\r\n",
        CHUNKED + b"1 \r\nx\r\n0\r\n\r\n",
        CHUNKED + b"1\r\nxy\r\n0\r\n\r\n",
        CHUNKED + b"FFFFFFFFFFFFFFFFFF\r\nx",
        CHUNKED + b"0\r\nbad trailer\r\n\r\n",
    ],
    ids=lambda value: repr(value)[:60],
)  # fmt: skip
def test_malformed_however_the_bytes_are_cut(data: bytes) -> None:
    """Refused in all cuts, and nothing of it becomes a request."""
    for pieces in every_cut(data):
        found = results([*pieces, b"\r\n\r\n"])
        assert [one for one in found if isinstance(one, Request) and one.body != b""] == []
        assert found[-1] == MALFORMED_HTTP, pieces


@pytest.mark.parametrize("method", ["GET", "HEAD", "FOO", "post", "Delete", "M-SEARCH2", "CONNECT", "PRI", "SOURCE"])
def test_t3_other_methods_are_refused_and_the_next_request_is_read(method: str) -> None:
    data = b"%b x:1 HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}" % method.encode() + POST + b"\r\n"
    assert [type(one).__name__ for one in results([data])] == ["Reply", "Request"]
    for pieces in every_cut(data):
        assert results(pieces)[0] == METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    "tail",
    [
        b"Content-Length: 1048577\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"Connection: close\r\n\r\n",
        b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    ],
)
def test_a_refusal_ends_the_connection_when_its_body_may_not_come_or_is_long(tail: bytes) -> None:
    assert results([POST + b"Stranger: yes\r\n" + tail]) == [UNAUTHORIZED.closing()]


def test_a_refused_body_is_skipped_and_is_no_request() -> None:
    hidden = POST + b"\r\n"
    head = POST + b"Stranger: yes\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    data = head + hidden + POST + b"Content-Length: 1\r\n\r\nx"
    for pieces in every_cut(data):
        refusal, request = results(pieces)
        assert refusal == UNAUTHORIZED
        assert isinstance(request, Request)
        assert request.body == b"x"


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (b"POST / HTTP/1.1\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nConnection: close\r\n\r\n", False),
        (b"POST / HTTP/1.1\r\nConnection: x, CLOSE\r\n\r\n", False),
        (b"POST / HTTP/1.0\r\n\r\n", False),
        (b"POST / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
    ],
)
def test_keep_alive(head: bytes, keep_alive: bool) -> None:
    (request,) = results([head])
    assert isinstance(request, Request)
    assert request.keep_alive is keep_alive
    assert request.http10 is (b"HTTP/1.0" in head)


def test_t8_blanks_around_a_value_are_no_part_of_it_and_the_first_of_a_repeated_header_counts() -> None:
    (request,) = results([POST + b"A: \t b c \t \r\nB:\r\nC:\t\r\nX: 1\r\nx: 2\r\n\r\n"])
    assert isinstance(request, Request)
    assert request.headers == {b"a": b"b c", b"b": b"", b"c": b"", b"x": b"1"}


def test_a_trailer_is_no_header() -> None:
    (request,) = results([CHUNKED + b"0\r\nX: 1\r\n\r\n"])
    assert isinstance(request, Request)
    assert request.headers == {b"transfer-encoding": b"chunked"}


EXPECT = POST + b"Expect: 100-Continue\r\nContent-Length: 2\r\n"


@pytest.mark.parametrize(
    ("pieces", "kinds"),
    [
        ([EXPECT + b"\r\n", b"{}"], [CONTINUE, b"{}"]),
        ([EXPECT + b"\r\n{", b"}"], [b"{}"]),
        ([EXPECT.replace(b"1.1", b"1.0") + b"\r\n", b"{}"], [b"{}"]),
        ([EXPECT + b"Stranger: yes\r\n\r\n"], [UNAUTHORIZED.closing()]),
        ([EXPECT.replace(b": 2", b": 2000000") + b"\r\n"], [TOO_LARGE]),
        ([EXPECT.replace(b": 2", b": 0") + b"\r\n"], [b""]),
    ],
    ids=["waits", "has begun", "HTTP/1.0", "refused", "too large", "no body"],
)  # fmt: skip
def test_100_continue_only_when_the_body_is_wanted(pieces: list[bytes], kinds: list[object]) -> None:
    assert [one.body if isinstance(one, Request) else one for one in results(pieces)] == kinds


def chunk(size: int) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"x" * size)


@pytest.mark.parametrize("size", [7, 1000, 1 << 19])
def test_t4_bounds_the_data_of_a_chunked_body(size: int) -> None:
    whole, rest = divmod(MAX_BODY_BYTES, size)
    at_limit = chunk(size) * whole + (chunk(rest) if rest else b"")
    (request,) = results([CHUNKED, at_limit + b"0\r\n\r\n"])
    assert isinstance(request, Request)
    assert len(request.body) == MAX_BODY_BYTES
    assert results([CHUNKED, at_limit + chunk(1)]) == [TOO_LARGE]


@pytest.mark.parametrize(
    "endless",
    [
        POST,
        POST + b"A: ",
        POST + b"A: b\r\n",
        b"POST /",
        CHUNKED + b"1;",
        CHUNKED + b"0\r\nT: ",
        CHUNKED + b"0\r\nT: v\r\n",
    ],
    ids=repr,
)
@pytest.mark.parametrize("size", [1, 1000, 2 * MAX_HEAD_BYTES])
def test_no_head_chunk_extension_or_trailer_grows_without_end(endless: bytes, size: int) -> None:
    lines = endless.endswith((b"v\r\n", b"b\r\n"))
    unit = b"A: b\r\n" if lines else b"x"
    piece = unit * (size // len(unit) + 1)
    reader = RequestReader(admit)
    reader.feed(endless)
    fed, found = len(endless), reader.next()
    while found is None and fed < 4 * MAX_HEAD_BYTES:
        reader.feed(piece)
        fed += len(piece)
        found = reader.next()
    assert found in (HEAD_TOO_LARGE, MALFORMED_HTTP)
    assert fed <= MAX_HEAD_BYTES + len(endless) + len(piece) + 2


def test_a_head_at_its_bound() -> None:
    frame = POST + b"A: \r\n\r\n"
    head = POST + b"A: %b\r\n\r\n" % (b"x" * (MAX_HEAD_BYTES - len(frame)))
    assert isinstance(results([head])[0], Request)
    assert results([head.replace(b"A: ", b"A: y")]) == [HEAD_TOO_LARGE]


class TestRepeated:
    """A request with the head of the one before is not parsed again, and is nothing else for that."""

    REQUEST = POST + b"A: b\r\nContent-Length: 2\r\n\r\n{}"

    def reader(self, first: bytes = REQUEST) -> RequestReader:
        reader = RequestReader(admit)
        reader.feed(first)
        assert isinstance(reader.next(), Request)
        assert reader.next() is None
        return reader

    def test_its_body_is_found(self) -> None:
        reader = self.reader()
        assert reader.repeated(self.REQUEST[:-2] + b"[]") == b"[]"
        assert reader.repeat_headers == {b"a": b"b", b"content-length": b"2"}

    @pytest.mark.parametrize(
        "data",
        [
            REQUEST[:-1],
            REQUEST + b"x",
            REQUEST * 2,
            REQUEST.replace(b"A: b", b"A: c"),
            REQUEST.replace(b": 2", b": 3"),
            REQUEST.replace(b"POST", b"GET "),
        ],
        ids=repr,
    )
    def test_anything_else_is_parsed(self, data: bytes) -> None:
        assert self.reader().repeated(data) is None

    @pytest.mark.parametrize(
        "first",
        [
            REQUEST.replace(b"A: b", b"Connection: close"),
            REQUEST.replace(b"1.1", b"1.0").replace(b"A: b", b"Connection: keep-alive"),
            POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ],
        ids=["close", "HTTP/1.0", "chunked"],
    )
    def test_only_plain_heads_are_remembered(self, first: bytes) -> None:
        assert self.reader(first).repeated(first) is None

    def test_not_behind_a_request_that_is_incomplete(self) -> None:
        reader = self.reader()
        reader.feed(POST)
        assert reader.repeated(self.REQUEST) is None
        reader.feed(b"Content-Length: 99\r\n\r\n")
        assert reader.next() is None
        assert reader.repeated(self.REQUEST) is None

    def test_it_is_admitted_anew(self) -> None:
        refused: list[Reply | None] = [None]
        reader = RequestReader(lambda method, headers: refused[0])
        reader.feed(self.REQUEST)
        assert isinstance(reader.next(), Request)
        refused[0] = UNAUTHORIZED
        assert reader.repeated(self.REQUEST) is None
        reader.feed(self.REQUEST)
        assert reader.next() == UNAUTHORIZED
