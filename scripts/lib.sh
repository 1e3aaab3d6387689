# Shared by the scripts; sourced, never run. Sets GF_ROOT and the cache folder, and says what happens on standard error.
GF_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
GF_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/ghostfleet

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command as root: directly, or with sudo where there is one.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "installing Debian packages needs root, and there is no sudo: run 'scripts/setup' as root once"
  fi
}

# True when Go is new enough to build the real components.
have_go() {
  command -v go >/dev/null || return 1
  local version
  version=$(go env GOVERSION 2>/dev/null | sed 's/^go//')
  [ "$(printf '1.26\n%s\n' "$version" | sort -V | head -n 1)" = 1.26 ]
}

# The folder of the real programs: named after what tests/real asks for, so that another clone finds them and a changed version
# is built anew. Every file that decides what is built is in the hash.
real_bin_dir() {
  local key
  key=$(cat "$GF_ROOT/tests/real/go.mod" "$GF_ROOT/tests/real/go.sum" "$GF_ROOT/tests/real/kubelet/main.go" "$GF_ROOT/tests/real/devicemanager/main.go" | sha256sum | cut -c1-16)
  printf '%s/real/%s\n' "$GF_CACHE" "$key"
}

# The folder of programs taken out of Debian packages (docker-registry, containerd and its ctr).
unpacked_bin_dir() { printf '%s/packages\n' "$GF_CACHE"; }

# The same for Kubernetes' own end-to-end suite (e2e.test) and the program that runs it (ginkgo), in tests/real/e2e.
e2e_bin_dir() {
  local key
  key=$(cd "$GF_ROOT/tests/real/e2e" && cat go.mod go.sum e2e.go | sha256sum | cut -c1-16)
  printf '%s/e2e/%s\n' "$GF_CACHE" "$key"
}

# The same for metrics-server, in tests/real/metrics-server.
metrics_server_dir() {
  local key
  key=$(cd "$GF_ROOT/tests/real/metrics-server" && cat go.mod go.sum | sha256sum | cut -c1-16)
  printf '%s/metrics-server/%s\n' "$GF_CACHE" "$key"
}
