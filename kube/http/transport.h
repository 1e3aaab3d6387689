// Transport: a connected socket with or without TLS, as a stream of plain bytes for a protocol engine. Output is pulled
// from the engine and leaves in one write per turn of the loop; input is read into the loop's scratch buffer.
//
// Thread rule: one loop. Ownership: shared, because operations of the reactor hold it; whoever takes its events calls
// detach() or close() before going away. No event comes from inside a call of a Transport method.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kube/http/loop_context.h"
#include "kube/http/tls.h"

namespace ghostfleet::kube::http {

class TransportEvents {
 public:
  virtual ~TransportEvents() = default;
  // The connection is ready: TLS is agreed, or there is none.
  virtual void on_open() = 0;
  // Decrypted bytes. An error closes the transport, after its output is flushed.
  virtual Status on_bytes(std::string_view plain) = 0;
  // The peer has ended its side. The transport closes when this returns, unless half_open() then says to go on writing;
  // the engine may take it for the end of a body.
  virtual void on_eof() {}
  virtual bool half_open() const { return false; }
  // Appends what is to be sent, about `limit` bytes at most; nothing when there is nothing.
  virtual void fill(std::string* plain, size_t limit) = 0;
  // All output is in the hands of the kernel. True: the connection is to be closed cleanly now.
  virtual bool on_flushed() = 0;
  // Whether an answer is due: then a transport that coalesces looks for input by itself.
  virtual bool awaits_input() const { return false; }
  // The end, once, unless the owner closed the transport itself.
  virtual void on_closed(const Status& why) = 0;
};

struct TransportCounters {
  uint64_t bytes_in = 0, bytes_out = 0;
};

class Transport : public Flushable {
 public:
  static constexpr size_t kFlushBytes = 64 * 1024;
  static constexpr int kMuchInput = 64 * 1024;

  // Takes a connected file descriptor.
  static std::shared_ptr<Transport> create(std::shared_ptr<LoopContext> context, int fd, TransportEvents* events);

  // Begins to work. `tls` may be null. Bytes that were read already come first.
  virtual void open(std::unique_ptr<TlsEngine> tls, std::string_view early_bytes) = 0;
  // TLS inside what flows so far (behind a proxy that has answered CONNECT); on_open() comes again. May be called from
  // inside on_bytes().
  virtual void start_tls(std::unique_ptr<TlsEngine> tls) = 0;
  // Output is ready to be pulled.
  virtual void schedule_flush() = 0;
  // Reads no more until resumed: what makes a peer wait. Its end is then not seen either.
  virtual void set_reading(bool on) = 0;
  // Small input is collected: after a read that found little the next one waits about `wait`, unless much has arrived
  // (kMuchInput bytes) or the peer has ended. Zero: every arrival is read at once. Never before on_open().
  virtual void set_read_coalescing(Duration wait) = 0;
  // Reads what has been collected so far. Events come from inside.
  virtual void read_collected() = 0;
  // Closes at once. No further event.
  virtual void close() = 0;
  // Says goodbye, then reads on for a moment so that the peer gets what was sent before. No further event.
  virtual void linger() = 0;
  virtual void detach() = 0;
  // Somebody else takes the events from now on.
  virtual void set_events(TransportEvents* events) = 0;
  // Ends our side, when all output has left (from on_flushed()); reading goes on.
  virtual void end_output() = 0;

  // The innermost; null without TLS.
  virtual const TlsEngine* tls() const = 0;
  virtual bool closed() const = 0;
  virtual const TransportCounters& counters() const = 0;
  virtual std::string remote_address() const = 0;
  // The address the peer came to, and its port.
  virtual std::string local_address(uint16_t* port) const = 0;
  // Bytes the kernel did not take yet.
  virtual size_t unsent() const = 0;
};

// "Connection refused", without the noise around it.
std::string errno_text(int error);

}  // namespace ghostfleet::kube::http
