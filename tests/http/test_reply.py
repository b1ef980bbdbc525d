"""Replies as bytes."""

import pytest

from a2a_bridge.http.reply import ACCEPTED, CONTINUE, ENDED, METHOD_NOT_ALLOWED, TOO_LARGE, Encoder, Reply

DATE = b"date: Thu, 01 Jan 1970 00:00:01 GMT\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("reply", "http10", "expected"),
    [
        (Reply(200, b"{}"), False, b"HTTP/1.1 200 OK\r\n" + DATE + b"content-length: 2\r\n\r\n{}"),
        (Reply(200, b"{}"), True,
         b"HTTP/1.1 200 OK\r\n" + DATE + b"content-length: 2\r\nconnection: keep-alive\r\n\r\n{}"),
        (Reply(200, b"{}", b"a: b\r\n").closing(), True,
         b"HTTP/1.1 200 OK\r\n" + DATE + b"content-length: 2\r\nconnection: close\r\na: b\r\n\r\n{}"),
        (ACCEPTED, False, b"HTTP/1.1 202 Accepted\r\n" + DATE + b"content-length: 0\r\n\r\n"),
        (ENDED, False, b"HTTP/1.1 204 No Content\r\n" + DATE + b"\r\n"),
        (METHOD_NOT_ALLOWED, False,
         b"HTTP/1.1 405 Method Not Allowed\r\n" + DATE + b"content-length: 0\r\nallow: POST, DELETE\r\n\r\n"),
        (CONTINUE, False, b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["200", "HTTP/1.0", "closing", "202", "204", "405", "100"],
)  # fmt: skip
def test_encode(reply: Reply, http10: bool, expected: bytes) -> None:
    encoder = Encoder()
    encoder.set_date(1)
    assert encoder.encode(reply, http10) == expected


def test_a_refusal_of_too_much_ends_its_connection() -> None:
    assert b"connection: close\r\n" in Encoder().encode(TOO_LARGE)
