"""A real registry (Debian's docker-registry) on loopback, and images made and pushed by us through its HTTP API.

The program comes from scripts/setup --real, which takes it out of its package; GHOSTFLEET_PACKAGES_BIN names another folder.
"""
import base64
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

from cluster import Process, free_port

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from image_makers import INDEX, MANIFEST, digest, make_chunked, make_layer, make_soci_layer, make_stargz, push_image, push_soci, push_soci_v1  # noqa: E402, F401

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")


def package_program(name):
    """Path of a program taken out of a Debian package, or None."""
    folder = os.environ.get("GHOSTFLEET_PACKAGES_BIN") or os.path.join(CACHE, "ghostfleet", "packages")
    path = os.path.join(folder, name)
    return path if os.access(path, os.X_OK) else None


class Registry:
    """usage: with Registry() as r: r.push("team/app", "v1", [layer]); image name: r.host + "/team/app:v1" """

    def __init__(self, tls=False, user=None, password=None):
        self.dir = tempfile.mkdtemp(prefix="gf-registry-")
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.tls, self.user, self.password = tls, user, password
        self.ca = os.path.join(self.dir, "tls.crt")

    def __enter__(self):
        config = {"version": 0.1, "log": {"level": "info", "accesslog": {"disabled": True}},
                  "storage": {"filesystem": {"rootdirectory": os.path.join(self.dir, "data")}, "delete": {"enabled": True}},
                  "http": {"addr": self.host}}
        if self.tls:
            key = os.path.join(self.dir, "tls.key")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", self.ca,
                            "-days", "2", "-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
            config["http"]["tls"] = {"certificate": self.ca, "key": key}
        if self.user:
            import crypt  # bcrypt, which is all this registry takes
            path = os.path.join(self.dir, "htpasswd")
            with open(path, "w") as f:
                f.write(f"{self.user}:{crypt.crypt(self.password, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=1 << 5))}\n")
            config["auth"] = {"htpasswd": {"realm": "test", "path": path}}
        path = os.path.join(self.dir, "config.yml")
        with open(path, "w") as f:
            json.dump(config, f)  # JSON is YAML
        self.process = Process("registry", [package_program("docker-registry"), "serve", path], self.dir).start()
        end = time.monotonic() + 30
        while True:
            try:
                status, _, _ = self.request("GET", "/v2/")
                assert status == 200, status
                return self
            except OSError:
                if not self.process.running() or time.monotonic() > end:
                    tail = self.process.tail()
                    self.__exit__()
                    raise AssertionError("the registry does not start:\n" + tail)
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def request(self, method, path, body=None, headers=None):
        if self.tls:
            connection = http.client.HTTPSConnection(self.host, timeout=120, context=ssl.create_default_context(cafile=self.ca))
        else:
            connection = http.client.HTTPConnection(self.host, timeout=120)
        headers = dict(headers or {})
        if self.user:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        answer = response.status, dict(response.getheaders()), response.read()
        connection.close()
        return answer

    def push_blob(self, repository, data, name=None):
        """`data`: bytes, or the path of a file whose digest is `name`."""
        size = os.path.getsize(data) if isinstance(data, str) else len(data)
        name = name or digest(data)
        status, headers, body = self.request("POST", f"/v2/{repository}/blobs/uploads/")
        assert status == 202, (status, body)
        place = urllib.parse.urlsplit(headers["Location"])
        target = place.path + "?" + (place.query + "&" if place.query else "") + "digest=" + urllib.parse.quote(name)
        if isinstance(data, str):
            with open(data, "rb") as f:
                status, _, body = self.request("PUT", target, f, {"Content-Type": "application/octet-stream", "Content-Length": str(size)})
        else:
            status, _, body = self.request("PUT", target, data, {"Content-Type": "application/octet-stream"})
        assert status == 201, (status, body)
        return {"digest": name, "size": size}

    def push_manifest(self, repository, tag, manifest):
        data = json.dumps(manifest).encode()
        status, _, body = self.request("PUT", f"/v2/{repository}/manifests/{tag}", data, {"Content-Type": manifest["mediaType"]})
        assert status == 201, (status, body)
        return {"mediaType": manifest["mediaType"], "digest": digest(data), "size": len(data)}

    def push(self, repository, tag, layers, **more):
        """Layers are dicts of make_layer() and the like; answers the manifest's descriptor."""
        return push_image(self, repository, tag, layers, **more)
