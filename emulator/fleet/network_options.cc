#include "emulator/fleet/network_options.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/digest.h"
#include "emulator/vpc/claims.h"

namespace ghostfleet::emulator {
namespace {

std::string folder_of(const std::string& home) { return home + "/vpc"; }

// Addresses are distinct within a cluster.
std::string ending_of(const kube::ClientConfig& client) {
  return fmt::format("-{}.claims", sha256_hex(client.server_url + "\n" + client.tls.ca_pem).substr(0, 12));
}

}  // namespace

std::string network_claims_file(const std::string& home, const std::string& vpc, const kube::ClientConfig& client) {
  return fmt::format("{}/{}{}", folder_of(home), vpc, ending_of(client));
}

Status remove_network_claims(const std::string& home, const kube::ClientConfig& client, const std::string& fleet) {
  const std::string ending = ending_of(client);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(home), error)) {
    const std::string path = entry.path().string();
    if (path.ends_with(ending)) GF_RETURN_IF_ERROR(Claims::remove(path, fleet));
  }
  return Status();
}

}  // namespace ghostfleet::emulator
