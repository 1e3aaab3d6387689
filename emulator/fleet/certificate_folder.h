// Where certificates of nodes are kept between runs, each with its key in one PEM file that only its owner may read.
//
// Two layouts: a fleet has a file for each node (NODE.pem, NODE-server.pem); a single node has a kubelet's files
// (kubelet-client-2026-01-05-10-00-00.pem, and kubelet-client-current.pem as a link to the newest).
// Thread rule: blocking, any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/client/client_config.h"

namespace ghostfleet::emulator {

class CertificateFolder {
 public:
  enum class Layout : unsigned char { kFleet, kKubelet };
  enum class Kind : unsigned char { kClient, kServer };

  CertificateFolder() = default;  // keeps nothing
  CertificateFolder(std::string path, Layout layout) : path_(std::move(path)), layout_(layout) {}

  // Makes the folder.
  Status prepare() const;
  Result<std::string> load(std::string_view node, Kind kind) const;
  Status save(std::string_view node, Kind kind, const std::string& pem) const;
  // The file that holds the newest certificate of a node.
  std::string current(std::string_view node, Kind kind) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Layout layout_ = Layout::kFleet;
};

// The folder of one fleet on one cluster below `home`: another cluster, or the same one with another authority, must
// not be met with certificates it did not sign.
std::string fleet_certificate_folder(const std::string& home, const std::string& fleet,
                                     const kube::ClientConfig& client);

}  // namespace ghostfleet::emulator
