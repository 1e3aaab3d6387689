// ServiceAllocator: cluster addresses and node ports that services hold, each given to one service at a time.
//
// It learns what is taken from the stored services at its first use and is told of every change from then on.
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/apiserver/api.h"

namespace ghostfleet::controlplane {

class ServiceAllocator {
 public:
  // Reads the stored services once. `cidr` is IPv4, /8 to /28 (larger ranges use their first 65,536 addresses).
  void prepare(Api& api, std::string_view cidr, int first_port, int last_port);

  enum class Answer : unsigned char { kGiven, kTaken, kOutOfRange, kExhausted };

  // Any free address; "" when none is left.
  std::string take_address();
  Answer take_address(std::string_view address);
  void give_address_back(std::string_view address);

  // Any free port; 0 when none is left.
  int take_port();
  Answer take_port(int port);
  void give_port_back(int port);

  int first_port() const { return first_port_; }
  int last_port() const { return last_port_; }

 private:
  void learn(Api& api);
  bool index_of(std::string_view address, size_t* index) const;
  std::string address_at(size_t index) const;

  mutable std::mutex mutex_;
  bool ready_ = false;
  uint32_t base_ = 0;
  std::vector<bool> addresses_;
  size_t next_address_ = 0;
  int first_port_ = 30000, last_port_ = 32767;
  std::vector<bool> ports_;
  size_t next_port_ = 0;
};

// Dotted text to number; false when it is no IPv4 address.
bool parse_ipv4(std::string_view text, uint32_t* address);

}  // namespace ghostfleet::controlplane
