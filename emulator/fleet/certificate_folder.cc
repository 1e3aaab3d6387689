#include "emulator/fleet/certificate_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/digest.h"
#include "base/files.h"

namespace ghostfleet::emulator {
namespace {

constexpr size_t kMostBytes = 1u << 20;
constexpr unsigned kPrivate = 0600;

std::string dated(std::string_view prefix) {
  const auto now = static_cast<std::time_t>(SystemClock::instance().wall_now().seconds());
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d-%H-%M-%S", &parts);
  return fmt::format("{}-{}.pem", prefix, text);
}

std::string_view prefix_of(CertificateFolder::Kind kind) {
  return kind == CertificateFolder::Kind::kClient ? "kubelet-client" : "kubelet-server";
}

}  // namespace

Status CertificateFolder::prepare() const { return path_.empty() ? Status() : make_directories(path_); }

std::string CertificateFolder::current(std::string_view node, Kind kind) const {
  if (layout_ == Layout::kKubelet) return fmt::format("{}/{}-current.pem", path_, prefix_of(kind));
  return fmt::format("{}/{}{}.pem", path_, node, kind == Kind::kClient ? "" : "-server");
}

Result<std::string> CertificateFolder::load(std::string_view node, Kind kind) const {
  if (path_.empty()) return not_found("certificates are not kept");
  return read_file(current(node, kind), kMostBytes);
}

Status CertificateFolder::save(std::string_view node, Kind kind, const std::string& pem) const {
  if (path_.empty()) return Status();
  const std::string at = current(node, kind);
  // A lost file costs one signing request: it need not survive a power cut.
  if (layout_ == Layout::kFleet) return write_file(at, pem, kPrivate, false);
  const std::string name = dated(prefix_of(kind));
  GF_RETURN_IF_ERROR(write_file(path_ + "/" + name, pem, kPrivate));
  const std::string link = at + ".tmp";
  ::unlink(link.c_str());
  if (::symlink(name.c_str(), link.c_str()) != 0 || std::rename(link.c_str(), at.c_str()) != 0) {
    return Status(Code::kInternal, fmt::format("{}: {}", at, std::strerror(errno)));
  }
  return Status();
}

std::string fleet_certificate_folder(const std::string& home, const std::string& fleet,
                                     const kube::ClientConfig& client) {
  const std::string cluster = sha256_hex(client.server_url + "\n" + client.tls.ca_pem).substr(0, 12);
  return fmt::format("{}/certificates/{}-{}", home, fleet, cluster);
}

}  // namespace ghostfleet::emulator
