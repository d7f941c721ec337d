"""A server between a client and an S3 server, which fails at random, from a seed."""
import http.client
import http.server
import random
import sys
import threading

# The share of requests in percent, and what happens to them.
FAULTS = [
    (8, "busy"),  # 503, and the request has no effect
    (4, "cut"),  # the connection ends within the request
    (6, "lost"),  # the request has its effect, and the connection ends before the answer
]
HOP = {"connection", "transfer-encoding", "keep-alive"}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # A client that was killed is what this proxy is for.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Proxy:
    """`answers` has headers that the server's answers lack."""

    def __init__(self, server, seed, answers=None):
        self.server = server
        self.answers = answers or {}
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.counts = {}
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def log_message(self, *_):
                pass

        self.http = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def choose(self):
        """Returns the fault of the next request, and counts it."""
        with self.lock:
            number = self.random.uniform(0, 100)
            fault = "none"
            for share, name in FAULTS:
                if number < share:
                    fault = name
                    break
                number -= share
            self.counts[fault] = self.counts.get(fault, 0) + 1
            return fault

    def handle(self, handler):
        length = int(handler.headers.get("content-length") or 0)
        fault = self.choose()
        try:
            if fault == "cut":
                handler.rfile.read(length // 2)
                return end(handler)
            body = handler.rfile.read(length)
            # The client was killed within the request.
            if len(body) < length:
                return end(handler)
            if fault == "busy":
                return answer(handler, 503, {}, b"<Error><Code>SlowDown</Code></Error>")
            status, headers, content = self.forward(handler, body)
            if fault == "lost":
                return end(handler)
            answer(handler, status, headers, content)
        except ConnectionError:
            end(handler)

    def forward(self, handler, body):
        connection = http.client.HTTPConnection(self.server, timeout=60)
        headers = {name: value for name, value in handler.headers.items()
                   if name.lower() not in HOP}
        connection.request(handler.command, handler.path, body, headers)
        response = connection.getresponse()
        content = response.read()
        headers = self.answers | {
            name: value for name, value in response.getheaders()
            if name.lower() not in HOP | {"content-length", "date", "server"}}
        connection.close()
        return response.status, headers, content


def answer(handler, status, headers, content):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(content)


def end(handler):
    handler.close_connection = True
