// Claims: which parts of a VPC belong to which fleet, when several fleets use one VPC file, so that no address is given
// out twice. A fleet claims a part (a 64th of a subnet) when it needs it, and keeps it until its claims are removed:
// its nodes and pods stay in the API when the program ends.
//
// A file of lines "CIDR FLEET", changed under a lock on the file, so that processes may share it.
// Thread rule: one owner; the file is safe between processes. Limits: 16 MiB.
// Errors: a file that is none of ours names its line.
#pragma once

#include <memory>
#include <string>

#include "agent/network/ip.h"
#include "base/status.h"

namespace ghostfleet::emulator {

class Claims {
 public:
  static Result<std::unique_ptr<Claims>> open(std::string path, std::string fleet);
  // Gives up what the fleet has claimed; no file is no error.
  static Status remove(const std::string& path, const std::string& fleet);

  // True: it is ours, now or since earlier. False also when the file cannot be read or written: see status().
  bool claim(const agent::Cidr& part);
  const Status& status() const { return status_; }

 private:
  Claims(std::string path, std::string fleet) : path_(std::move(path)), fleet_(std::move(fleet)) {}
  Result<bool> claim_in_file(const agent::Cidr& part);

  std::string path_, fleet_;
  Status status_;
};

}  // namespace ghostfleet::emulator
