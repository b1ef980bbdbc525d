"""uvicorn's HTTP/1.1 protocol, with the two places in which the contract differs from it."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from a2a_bridge.http.endpoint import MALFORMED_HTTP


class Protocol(HttpToolsProtocol):
    """Never looks at the path (T2), and refuses malformed HTTP in the contract's form (T5, T7)."""

    def on_url(self, url: bytes) -> None:
        self.url = b"/"

    def send_400_response(self, msg: str) -> None:
        lines = [STATUS_LINE[MALFORMED_HTTP.status]]
        lines += [b"%b: %b\r\n" % header for header in (*MALFORMED_HTTP.headers, (b"connection", b"close"))]
        self.transport.write(b"".join([*lines, b"\r\n", MALFORMED_HTTP.body]))
        self.transport.close()
