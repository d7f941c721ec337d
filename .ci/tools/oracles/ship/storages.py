"""Other object storages than S3: emulators, from which the objects are read without vor."""
import contextlib
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from .judge import expect

BUCKET = "oracle"
# The one account of Azure's emulator has a well-known key.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Google:
    """`gcp-storage-emulator`, from PyPI."""

    name = "Google Cloud Storage"
    # This emulator takes everybody.
    secret = "no secret"
    # Google's answers have one, and the client wants it.
    answers = {"etag": '"one"'}

    def __init__(self, folder, prefix):
        from gcp_storage_emulator.server import create_server

        self.target = f"gs://{BUCKET}/{prefix}"
        self.folder = folder
        port = free_port()
        self.server = create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
        self.server.start()
        self.address = f"127.0.0.1:{port}"

    def env(self, endpoint):
        account = self.folder / "google.json"
        account.write_text(json.dumps({
            "gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": "",
            "private_key_id": ""}))
        return {"GOOGLE_SERVICE_ACCOUNT": str(account), "GOOGLE_ALLOW_HTTP": "true"}

    def objects(self):
        root = f"http://{self.address}/storage/v1/b/{BUCKET}/o"
        found = {}
        for entry in json.loads(get(root)).get("items", []):
            name = entry["name"]
            found[name] = get(f"{root}/{urllib.parse.quote(name, safe='')}?alt=media")
        return found

    def stop(self):
        self.server.stop()


class Azure:
    """`azurite`, from npm: the path of its program for blobs is needed."""

    name = "Azure"

    secret = KEY
    answers = {}

    def __init__(self, folder, prefix):
        from azure.storage.blob import BlobServiceClient

        self.target = f"az://{BUCKET}/{prefix}"
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [os.environ["AZURITE"], "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder,
             "--silent", "--skipApiVersionCheck", "--disableTelemetry"])
        client = BlobServiceClient(f"http://{self.address}/{ACCOUNT}", {
            "account_name": ACCOUNT, "account_key": KEY}, retry_total=20)
        wait_for(port)
        self.container = client.create_container(BUCKET)

    def env(self, endpoint):
        return {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY,
                "AZURE_STORAGE_ENDPOINT": f"{endpoint}/{ACCOUNT}", "AZURE_ALLOW_HTTP": "true"}

    def objects(self):
        return {blob.name: self.container.download_blob(blob.name).readall()
                for blob in self.container.list_blobs()}

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def get(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    expect(False, f"no server at port {port} after 60 s")
