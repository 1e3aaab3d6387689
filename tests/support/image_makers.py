"""Layers and images made by tests: tar, gzip, zstd, eStargz, SOCI. A registry here is what has push_blob() and push_manifest()."""
import gzip
import hashlib
import io
import json
import struct
import subprocess
import tarfile
import zlib

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def push_image(registry, repository, tag, layers, architecture="amd64", annotations=None):
    """Layers are dicts of make_layer() and the like; answers the manifest's descriptor."""
    descriptors = []
    for layer in layers:
        blob = registry.push_blob(repository, layer["blob"], layer["digest"])
        descriptors.append({"mediaType": layer["type"], **blob, **({"annotations": layer["annotations"]} if layer.get("annotations") else {})})
    config = json.dumps({"architecture": architecture, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [x["diff"] for x in layers]}}).encode()
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": CONFIG, **registry.push_blob(repository, config)}, "layers": descriptors}
    if annotations:
        manifest["annotations"] = annotations
    return registry.push_manifest(repository, tag, manifest)


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


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


def make_layer(files, compression="gzip"):
    tar = make_tar(files)
    if compression == "gzip":
        blob, kind = gzip.compress(tar, 6, mtime=0), LAYER + "+gzip"
    elif compression == "zstd":
        blob, kind = zstd(tar), LAYER + "+zstd"
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


def make_chunked(files):
    """A zstd:chunked layer: each file a frame of its own, the table of contents in a skippable frame behind them."""
    blob, tar, entries, plain = bytearray(), bytearray(), [], b""

    def add(data):
        blob.extend(zstd(data))
        tar.extend(data)

    def skippable(data):
        blob.extend(b"\x50\x2a\x4d\x18" + struct.pack("<I", len(data)) + data)

    for name, content in files.items():
        one = make_tar({name: content})
        plain += one[:tarfile.TarFile.open(fileobj=io.BytesIO(one)).next().offset_data]
        if not isinstance(content, bytes):
            entries.append({"name": name, "type": "dir" if content is None else "symlink" if content[0] == "link" else "hardlink", "linkName": "" if content is None else content[1]})
            continue
        add(plain)
        entries.append({"name": name, "type": "reg", "size": len(content), "mode": 0o644, "digest": digest(content), "offset": len(blob)})
        add(content)
        entries[-1]["endOffset"] = len(blob)
        plain = b"\0" * (-len(content) % 512)
    add(plain + b"\0" * 1024)
    toc = json.dumps({"version": 1, "entries": entries}).encode()
    packed, offset = zstd(toc), len(blob) + 8
    skippable(packed)
    skippable(struct.pack("<QQQQ", offset, len(packed), len(toc), 1) + b"GnUlInUx")
    key = "io.github.containers.zstd-chunked.manifest-"
    return {"blob": bytes(blob), "digest": digest(bytes(blob)), "diff": digest(bytes(tar)), "type": LAYER + "+zstd",
            "annotations": {key + "checksum": digest(packed), key + "position": f"{offset}:{len(packed)}:{len(toc)}:1"}}


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


def soci_index(registry, repository, layers, version, subject=None):
    """Pushes the index of pairs of a layer and its zTOC; answers its descriptor as a list of referrers has it."""
    kind = f"application/vnd.amazon.soci.index.v{version}+json"
    rows = []
    for layer, ztoc in layers:
        rows.append({"mediaType": "application/octet-stream", **registry.push_blob(repository, ztoc),
                     "annotations": {"com.amazon.soci.image-layer-digest": layer["digest"], "com.amazon.soci.image-layer-mediaType": layer["type"]}})
    index = {"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": kind, "config": {"mediaType": kind, **registry.push_blob(repository, b"{}")}, "layers": rows}
    if subject:
        index["subject"] = subject
    return {**registry.push_manifest(repository, digest(json.dumps(index).encode()), index), "artifactType": kind}


def push_soci(registry, repository, tag, layers):
    """`layers`: pairs of a layer and its zTOC. The manifest names the index, as version 2 of SOCI has it."""
    name = soci_index(registry, repository, layers, 2)
    return push_image(registry, repository, tag, [layer for layer, _ in layers], annotations={"com.amazon.soci.index-digest": name["digest"]})


def push_soci_v1(registry, repository, tag, layers):
    """The same by version 1: the index refers to the manifest, told by the tag for registries without a referrers API."""
    image = push_image(registry, repository, tag, [layer for layer, _ in layers])
    entry = soci_index(registry, repository, layers, 1, image)
    registry.push_manifest(repository, image["digest"].replace(":", "-"), {"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]})
    return image
