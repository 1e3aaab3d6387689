// UpgradeCall: one attempt of HttpClient::upgrade(): a connection of its own, one request, and either a tunnel or an
// answer.
//
// Thread rule: one loop. Ownership: the client owns it until `on_over`, which is posted; after that nothing of it is
// used any longer.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kube/http/client.h"
#include "kube/http/client_connection.h"
#include "kube/http/client_session.h"
#include "kube/http/loop_context.h"

namespace ghostfleet::kube::http {

class UpgradeCall final : public ClientSessionEvents,
                          public ClientConnectionEvents,
                          public TimerTarget,
                          public std::enable_shared_from_this<UpgradeCall> {
 public:
  UpgradeCall(std::shared_ptr<LoopContext> context, const HttpClientOptions* options, const ClientSessionConfig* config,
              const UpgradeOptions& upgrade_options, UpgradeHandler* handler, std::function<void()> on_over);
  ~UpgradeCall() override;

  void begin(std::string_view method, std::string_view target, HeaderList headers);
  // No further event.
  void cancel();
  // The client goes away: no further event, and nothing of the client is used any longer.
  void abandon();

  void on_head(ClientCall* call, int status, const HeaderList& headers) override;
  void on_body(ClientCall* call, std::string_view piece) override;
  void on_end(ClientCall* call) override;
  void on_failed(ClientCall* call, const Status& status, bool sent) override;
  void on_released(ClientCall*) override {}
  void on_connected(ClientConnection* connection) override;
  void on_gone(ClientConnection* connection, const Status& why, bool was_open) override;
  void on_timer(uint64_t) override;

 private:
  void switch_protocols();
  void refuse();
  void fail(const Status& why);
  UpgradeHandler* over();

  std::shared_ptr<LoopContext> context_;
  const UpgradeOptions options_;
  UpgradeHandler* handler_;  // null: over
  std::function<void()> on_over_;
  ClientCall call_;
  std::unique_ptr<ClientConnection> connection_;
  LoopContext::TimerId timer_;
  int status_ = 0;
  HeaderList headers_;
  std::string body_;  // of an answer; after 101: bytes of the new protocol
};

}  // namespace ghostfleet::kube::http
