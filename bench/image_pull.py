#!/usr/bin/env python3
"""A pull of an image of a gigabyte and more from a real registry on loopback, beside containerd's own pull of the same image, in turns.

The image is made of files of this machine's /usr (so that sizes and compressibility are real), in layers of gzip level 6, with a SOCI index. Both
verify the digest of each blob and of each layer's tar, keep the blobs, and unpack to files; both flush blobs to the disk. containerd is Debian's, started
anew with an empty folder for each round, overlayfs if it works here, else native. CPU seconds are those of the puller (and of containerd's daemon).

Nothing is removed before the end: ext4 passes over inodes that were freed in the last minutes, one by one, which costs whoever makes files after a large
removal more than everything else here. The folder may be one on tmpfs (--folder /dev/shm), which leaves the disk out.

usage: image_pull.py GHOSTFLEET [--size 1.2gb] [--layers 6] [--rounds 3] [--folder DIR] [--json FILE] [--no-containerd]   (as root, for containerd)
"""
import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "real"))
from cluster import Process  # noqa: E402
from registry import Registry, digest, make_soci_layer, package_program, push_soci  # noqa: E402


def choose_files(total, layers):
    """Lists of files of /usr, each together about total / layers bytes."""
    out, current, size = [], {}, 0
    for folder, _, files in sorted(os.walk("/usr")):
        for name in sorted(files):
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            bytes_ = os.path.getsize(path)
            if bytes_ > total / layers / 2:
                continue
            current[path[1:]] = path
            size += bytes_
            if size >= total / layers:
                out.append(current)
                current, size = {}, 0
                if len(out) == layers:
                    return out
    if current:
        out.append(current)
    return out


def build(job):
    """A layer, its table, and their places on the disk: bytes of this size do not go through a pipe twice."""
    files, path = job
    contents = {}
    for name, source in files.items():
        with open(source, "rb") as f:
            contents[name] = f.read()
    layer, ztoc = make_soci_layer(contents)
    with open(path, "wb") as f:
        f.write(layer["blob"])
    size = len(layer["blob"])
    layer["blob"] = path
    probe = sorted(contents, key=lambda n: abs(len(contents[n]) - 200000))[0]
    return layer, ztoc, size, sum(len(c) for c in contents.values()), len(contents), probe, digest(contents[probe])


def cpu_of_children():
    t = os.times()
    return t.children_user + t.children_system


def timed(command, env=None):
    before, start = cpu_of_children(), time.monotonic()
    done = subprocess.run(command, capture_output=True, env=env, stdin=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.decode()[-2000:]}")
    return seconds, cpu_of_children() - before, done.stdout


class Containerd:
    def __init__(self, folder):
        self.folder = folder
        self.socket = os.path.join(folder, "s.sock")
        config = os.path.join(folder, "config.toml")
        with open(config, "w") as f:
            f.write(f'version = 2\nroot = "{folder}/root"\nstate = "{folder}/state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
                    f'[grpc]\n  address = "{self.socket}"\n')
        self.process = Process("containerd", [package_program("containerd"), "--config", config], folder)

    def __enter__(self):
        self.process.start()
        end = time.monotonic() + 60
        while subprocess.run([*self.ctr(), "version"], capture_output=True).returncode != 0:
            if time.monotonic() > end or not self.process.running():
                raise SystemExit("containerd does not start:\n" + self.process.tail())
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.process.stop()
        for line in open("/proc/mounts").read().splitlines():
            if line.split()[1].startswith(self.folder):
                subprocess.run(["umount", line.split()[1]])

    def ctr(self):
        return [package_program("ctr"), "--address", self.socket]

    def measure(self, *words):
        before = self.process.cpu_seconds()
        seconds, cpu, _ = timed([*self.ctr(), *words])
        return {"seconds": seconds, "cpu": cpu + self.process.cpu_seconds() - before}


def run_containerd(folder, words):
    """On an empty containerd each time: what another round fetched must not be found."""
    place = tempfile.mkdtemp(prefix="ctrd-", dir=folder)
    with Containerd(place) as c:
        return c.measure(*words)


def run_ours(args, folder, words):
    store = tempfile.mkdtemp(prefix="store-", dir=folder)
    env = {**os.environ, "GHOSTFLEET_HOME": os.path.join(folder, "home")}
    seconds, cpu, out = timed([args.ghostfleet, "image", words[0], *words[1:], "--image-store", store, "--plain-http"], env)
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(os.path.join(store, "spans")) for f in fs)
    return {"seconds": seconds, "cpu": cpu, "out": out, "spans": size}


def snapshotter(folder, name):
    for kind in ("overlayfs", "native"):
        place = tempfile.mkdtemp(prefix="ctrd-", dir=folder)
        with Containerd(place) as c:
            done = subprocess.run([*c.ctr(), "image", "pull", "--plain-http", "--snapshotter", kind, name], capture_output=True)
            if done.returncode == 0:
                return kind
            print(f"containerd with {kind}: {done.stderr.decode()[-300:]}", flush=True)
    raise SystemExit("containerd cannot pull here")


def parse_size(text):
    return int(float(text.lower().rstrip("gb")) * (1 << 30))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--size", default="1.2gb")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="/var/tmp")
    parser.add_argument("--json")
    parser.add_argument("--no-containerd", action="store_true")
    args = parser.parse_args()
    args.ghostfleet = os.path.abspath(args.ghostfleet)
    if package_program("docker-registry") is None:
        raise SystemExit("no docker-registry: scripts/setup --real")
    folder = tempfile.mkdtemp(prefix="gf-pull-", dir=args.folder)
    rows = {}
    try:
        with Registry() as registry:
            lists = choose_files(parse_size(args.size), args.layers)
            with multiprocessing.Pool(os.cpu_count()) as pool:
                built = pool.map(build, [(files, os.path.join(folder, f"layer{i}")) for i, files in enumerate(lists)], 1)
            packed, plain, files = (sum(b[i] for b in built) for i in (2, 3, 4))
            push_soci(registry, "bench/app", "v1", [(b[0], b[1]) for b in built])
            name = registry.host + "/bench/app:v1"
            print(f"image: {len(built)} layers, {packed / 1e9:.2f} GB packed, {plain / 1e9:.2f} GB unpacked, {files} files; load {os.getloadavg()[0]:.1f}", flush=True)
            kinds = {
                "ghostfleet parallel": lambda: run_ours(args, folder, ["pull", name, "--puller", "parallel"]),
                "ghostfleet default": lambda: run_ours(args, folder, ["pull", name, "--puller", "default"]),
                "ghostfleet lazy, first file": lambda: run_ours(args, folder, ["cat", name, built[len(built) // 2][5]]),
            }
            if not args.no_containerd:
                kind = snapshotter(folder, name)
                kinds["containerd pull (" + kind + ")"] = lambda: run_containerd(folder, ["image", "pull", "--plain-http", "--snapshotter", kind, name])
                kinds["containerd fetch only"] = lambda: run_containerd(folder, ["content", "fetch", "--plain-http", name])
            for number in range(args.rounds):
                for what, run in kinds.items():
                    os.sync()
                    before = registry.process.cpu_seconds()
                    row = run()
                    if what.endswith("first file") and digest(row["out"]) != built[len(built) // 2][6]:
                        raise SystemExit("the file read lazily is not the one that was pushed")
                    row.pop("out", None)
                    row.update(registry_cpu=registry.process.cpu_seconds() - before, load=os.getloadavg()[0])
                    rows.setdefault(what, []).append(row)
                    print(f"round {number + 1}: {what:<30} {row['seconds']:7.2f} s, {row['cpu']:6.2f} CPU s, registry {row['registry_cpu']:.2f}, load {row['load']:.1f}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    best = {what: statistics.median(r["seconds"] for r in rs) for what, rs in rows.items()}
    for what, seconds in best.items():
        print(f"median: {what:<30} {seconds:7.2f} s  {plain / seconds / 1e6:7.0f} MB/s unpacked, {statistics.median(r['cpu'] for r in rows[what]):.2f} CPU s")
    full = best["ghostfleet parallel"]
    print(f"lazy first file / full pull: {best['ghostfleet lazy, first file'] / full:.3f} (goal 0.1)")
    for what, seconds in best.items():
        if what.startswith("containerd pull"):
            print(f"{what} / ghostfleet parallel: {seconds / full:.2f} (goal 2)")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"layers": len(built), "packed": packed, "unpacked": plain, "files": files, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
