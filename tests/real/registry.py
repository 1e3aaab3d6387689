"""A real registry (Debian's docker-registry) on loopback, and images made and pushed by us through its HTTP API.

The program comes from scripts/setup --real, which takes it out of its package; GHOSTFLEET_PACKAGES_BIN names another folder.
"""
import base64
import gzip
import hashlib
import http.client
import io
import json
import os
import shutil
import ssl
import struct
import subprocess
import tarfile
import tempfile
import time
import urllib.parse
import zlib

from cluster import Process, free_port

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CHUNK = 8 << 20


def package_program(name):
    """Path of a program taken out of a Debian package, or None."""
    folder = os.environ.get("GHOSTFLEET_PACKAGES_BIN") or os.path.join(CACHE, "ghostfleet", "packages")
    path = os.path.join(folder, name)
    return path if os.access(path, os.X_OK) else None


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


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

    def push(self, repository, tag, layers, architecture="amd64", annotations=None):
        """Layers are dicts of make_layer() and the like; answers the manifest's descriptor."""
        descriptors = []
        for layer in layers:
            blob = self.push_blob(repository, layer["blob"], layer["digest"])
            descriptors.append({"mediaType": layer["type"], **blob, **({"annotations": layer["annotations"]} if layer.get("annotations") else {})})
        config = json.dumps({"architecture": architecture, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [x["diff"] for x in layers]}}).encode()
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": CONFIG, **self.push_blob(repository, config)}, "layers": descriptors}
        if annotations:
            manifest["annotations"] = annotations
        return self.push_manifest(repository, tag, manifest)


def make_tar(files):
    """`files`: name to bytes, None (a folder) or ("link", target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.mtime = 1767607200
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            elif isinstance(content, tuple):
                info.type, info.linkname = tarfile.SYMTYPE if content[0] == "link" else tarfile.LNKTYPE, content[1]
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o644
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def make_layer(files, compression="gzip"):
    tar = make_tar(files)
    if compression == "gzip":
        blob, kind = gzip.compress(tar, 6, mtime=0), LAYER + "+gzip"
    elif compression == "zstd":
        blob, kind = subprocess.run(["zstd", "-q", "-c"], input=tar, capture_output=True, check=True).stdout, LAYER + "+zstd"
    else:
        blob, kind = tar, LAYER
    return {"blob": blob, "digest": digest(blob), "diff": digest(tar), "type": kind}


def member(data):
    return gzip.compress(data, 6, mtime=0)


def make_stargz(files, chunk=1 << 20):
    """An eStargz layer: each piece of a file a gzip member of its own, the table of contents behind them."""
    blob, tar, entries, plain = bytearray(), bytearray(), [], b""

    def add(data):
        blob.extend(member(data))
        tar.extend(data)

    for name, content in files.items():
        one = make_tar({name: content})
        info = tarfile.TarFile.open(fileobj=io.BytesIO(one)).next()
        head = one[:info.offset_data]
        plain += head
        if not isinstance(content, bytes):
            entries.append({"name": name, "type": "dir" if content is None else "symlink" if content[0] == "link" else "hardlink", "linkName": "" if content is None else content[1]})
            continue
        first = True
        for at in range(0, len(content), chunk):
            add(plain)
            plain = b""
            part = content[at:at + chunk]
            entry = {"name": name, "type": "reg", "size": len(content), "mode": 0o644} if first else {"name": name, "type": "chunk"}
            entries.append({**entry, "offset": len(blob), "chunkOffset": at, "chunkSize": len(part), "chunkDigest": digest(part)})
            add(part)
            first = False
        if first:
            entries.append({"name": name, "type": "reg", "size": 0, "mode": 0o644})
        plain += b"\0" * (-len(content) % 512)
    if plain:
        add(plain)
    toc = json.dumps({"version": 1, "entries": entries}).encode()
    offset = len(blob)
    add(make_tar({"stargz.index.json": toc}))
    extra = b"SG" + struct.pack("<H", 22) + b"%016xSTARGZ" % offset
    blob.extend(b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H", len(extra)) + extra + b"\x01\0\0\xff\xff" + b"\0" * 8)
    return {"blob": bytes(blob), "digest": digest(bytes(blob)), "diff": digest(bytes(tar)), "type": LAYER + "+gzip",
            "annotations": {"containerd.io/snapshot/stargz/toc.digest": digest(toc)}}


class Flat:
    """Just enough of FlatBuffers, front to back; all fields eight bytes wide."""

    def __init__(self):
        self.out = bytearray(4)

    def align(self, n):
        self.out.extend(b"\0" * (-len(self.out) % n))

    def point(self, place, to):
        struct.pack_into("<I", self.out, place, to - place)

    def table(self, place, fields):
        self.align(8)
        vtable = len(self.out)
        self.out.extend(struct.pack(f"<{fields + 2}H", 4 + 2 * fields, 8 + 8 * fields, *(8 + 8 * i for i in range(fields))))
        self.align(8)
        begin = len(self.out)
        self.out.extend(struct.pack("<iI", begin - vtable, 0) + b"\0" * (8 * fields))
        self.point(place, begin)
        return [begin + 8 + 8 * i for i in range(fields)]

    def number(self, place, value):
        struct.pack_into("<q", self.out, place, value)

    def data(self, place, value):
        self.align(4)
        self.point(place, len(self.out))
        self.out.extend(struct.pack("<I", len(value)) + value + b"\0")

    def list(self, place, count):
        self.align(4)
        self.point(place, len(self.out))
        self.out.extend(struct.pack("<I", count))
        begin = len(self.out)
        self.out.extend(b"\0" * (4 * count))
        return [begin + 4 * i for i in range(count)]


def make_soci_layer(files, span=4 << 20):
    """A gzip layer and its zTOC. The stream is flushed at the spans, so that they begin at whole bytes and need no window."""
    tar = make_tar(files)
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    blob = bytearray(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
    points = []
    for at in range(0, len(tar), span):
        points.append((len(blob), at))
        blob.extend(deflate.compress(tar[at:at + span]))
        blob.extend(deflate.flush(zlib.Z_FULL_FLUSH))
    blob.extend(deflate.flush(zlib.Z_FINISH) + struct.pack("<II", zlib.crc32(tar), len(tar) & 0xffffffff))
    blob = bytes(blob)
    layer = {"blob": blob, "digest": digest(blob), "diff": digest(tar), "type": LAYER + "+gzip"}
    ends = [p[0] for p in points[1:]] + [len(blob)]
    flat = Flat()
    root = flat.table(0, 6)
    flat.data(root[0], b"1.0")
    flat.data(root[1], b"ghostfleet tests")
    flat.number(root[2], len(blob))
    flat.number(root[3], len(tar))
    toc = flat.table(root[4], 1)
    members = tarfile.TarFile.open(fileobj=io.BytesIO(tar)).getmembers()
    for place, info in zip(flat.list(toc[0], len(members)), members):
        row = flat.table(place, 6)
        flat.data(row[0], info.name.encode())
        flat.data(row[1], b"dir" if info.isdir() else b"symlink" if info.issym() else b"hardlink" if info.islnk() else b"reg")
        flat.number(row[2], info.offset_data)
        flat.number(row[3], info.size)
        flat.data(row[4], info.linkname.encode())
        flat.number(row[5], info.mode)
    info = flat.table(root[5], 4)
    flat.number(info[0], 1)
    flat.number(info[1], len(points) - 1)
    for place, (start, _), end in zip(flat.list(info[2], len(points)), points, ends):
        flat.data(place, digest(blob[start:end]).encode())
    checkpoints = struct.pack("<iq", len(points), span) + b"".join(struct.pack("<qqB", at, offset, 0) + b"\0" * 32768 for at, offset in points)
    flat.data(info[3], checkpoints)
    return layer, bytes(flat.out)


def push_soci(registry, repository, tag, layers):
    """`layers`: pairs of a layer and its zTOC. The manifest names the index, as version 2 of SOCI has it."""
    empty = registry.push_blob(repository, b"{}")
    rows = []
    for layer, ztoc in layers:
        rows.append({"mediaType": "application/octet-stream", **registry.push_blob(repository, ztoc),
                     "annotations": {"com.amazon.soci.image-layer-digest": layer["digest"], "com.amazon.soci.image-layer-mediaType": layer["type"]}})
    index = {"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/vnd.amazon.soci.index.v2+json",
             "config": {"mediaType": "application/vnd.amazon.soci.index.v2+json", **empty}, "layers": rows}
    name = registry.push_manifest(repository, digest(json.dumps(index).encode()), index)
    return registry.push(repository, tag, [layer for layer, _ in layers], annotations={"com.amazon.soci.index-digest": name["digest"]})
