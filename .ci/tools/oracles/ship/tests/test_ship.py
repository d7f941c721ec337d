import http.client
import http.server
import pathlib
import tempfile
import threading
import unittest

from .. import judge
from ..proxy import FAULTS, Proxy

DATE = "date=2026-03-08"


class Objects(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.paths = [pathlib.Path(folder.name) / f"web-1-{number}.vor" for number in range(2)]
        self.objects = {}
        for path in self.paths:
            path.write_bytes(path.name.encode())
            self.objects[f"p/captures/host=web-1/{DATE}/{path.name}"] = path.read_bytes()
            for table in judge.TABLES:
                name = f"p/{table}/host=web-1/{DATE}/{path.stem}-1000-1772928000000.parquet"
                self.objects[name] = b"PAR1 rows PAR1"

    def judge(self, damaged=()):
        return judge.judge_objects(self.objects, {"web-1": self.paths}, set(damaged), "p")

    def refuses(self, words, **options):
        with self.assertRaisesRegex(judge.Mismatch, words):
            self.judge(**options)

    def test_whole_objects_pass(self):
        self.assertIn("2 captures", self.judge())

    def test_an_object_that_is_missing(self):
        for name in list(self.objects):
            content = self.objects.pop(name)
            self.refuses("no object of|has the tables")
            self.objects[name] = content

    def test_an_object_too_many(self):
        for name in [
            f"p/captures/host=web-1/{DATE}/other.vor",
            "p/captures/host=web-1/date=2026-03-09/web-1-0.vor",
            f"p/captures/host=web-1/{DATE}/web-1-0.vor.part",
            f"p/spans/host=web-2/{DATE}/web-1-0-1000-1772928000000.parquet",
            f"spans/host=web-1/{DATE}/web-1-0-1000-1772928000000.parquet",
        ]:
            self.objects[name] = b"PAR1PAR1"
            self.refuses("no segment|twice|another form")
            del self.objects[name]

    def test_bytes_that_differ(self):
        self.objects[f"p/captures/host=web-1/{DATE}/web-1-0.vor"] = b"web-1-1.vor"
        self.refuses("differs")

    def test_half_a_table(self):
        self.objects[f"p/spans/host=web-1/{DATE}/web-1-0-1000-1772928000000.parquet"] = b"PAR1 r"
        self.refuses("no whole Parquet")

    def test_a_damaged_segment_has_no_tables(self):
        self.refuses("has the tables", damaged=[self.paths[0]])

    def test_counts_that_differ(self):
        self.assertIn("3 spans", judge.judge_counts({("a", "x"): 3}, {("a", "x"): 3}))
        for found in [{}, {("a", "x"): 2}, {("a", "x"): 3, ("b", "x"): 1}]:
            with self.assertRaises(judge.Mismatch):
                judge.judge_counts(found, {("a", "x"): 3})


class Faults(unittest.TestCase):
    def test_all_faults_come_and_lost_requests_have_their_effect(self):
        received = []

        class Server(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                received.append(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = Proxy(f"127.0.0.1:{server.server_address[1]}", 1)
        outcomes = {"ok": 0, "busy": 0, "closed": 0}
        for number in range(200):
            connection = http.client.HTTPConnection(proxy.address.removeprefix("http://"))
            try:
                connection.request("PUT", "/object", b"%d" % number)
                status = connection.getresponse().status
                outcomes["ok" if status == 200 else "busy"] += 1
            except (ConnectionError, http.client.HTTPException):
                outcomes["closed"] += 1
            connection.close()
        counts = proxy.counts
        self.assertEqual(set(counts), {"none"} | {name for _, name in FAULTS})
        self.assertEqual(outcomes["ok"], counts["none"])
        self.assertEqual(outcomes["busy"], counts["busy"])
        self.assertEqual(outcomes["closed"], counts["cut"] + counts["lost"])
        self.assertEqual(len(received), counts["none"] + counts["lost"])


if __name__ == "__main__":
    unittest.main()
