// SPDX-License-Identifier: Apache-2.0
// scripted_peer: the other end of a stream, which follows a script in virtual time: it sends
// pieces, waits, fails and ends the stream, limits writes, and stores the bytes that were written.
//
//     gyre::testing::virtual_time_loop virtual_time;
//     gyre::testing::scripted_peer peer(virtual_time);
//     peer.send("hel").wait(50ms).send("lo\n").expect("bye\n").end();
//     gyre::io::stream stream = peer.connect();
//     virtual_time.run(session(stream));
//     EXPECT_EQ(peer.received(), "hello, hello\nbye\n");
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::testing {

namespace detail {
class scripted_connection;
}  // namespace detail

/// A connection of a loop in virtual time to a peer in the same process. No byte passes through the
/// kernel, so the order of all events is the same in every run. A program under test uses the
/// stream that connect() returns, an ordinary io::stream or net::tcp_stream.
///
/// The script has two independent parts:
/// - The peer's actions, in order: send(), wait(), expect(), end(), fail(). They begin with
///   connect(), whether or not the program reads. A read returns bytes of at most one send(). After
///   the last action, reads wait; more actions may be added at any time.
/// - The results of the program's writes, in order: take_at_most(), delay_write(), fail_write().
///   Later writes take all bytes at once.
///
/// Scripted operations of streams are reading, writing (send_file() too) and waiting for readiness.
/// Other operations, such as options and shutdown(), act on a Unix socket that represents the
/// connection. Messages with descriptors fail with std::errc::operation_not_supported.
///
/// Thread-safety: the thread that runs the loop.
/// Lifetime: must not outlive the virtual_time_loop; must outlive every waiting operation of its
/// stream. After its destruction, new operations fail with std::errc::bad_file_descriptor.
/// Complexity: allocates the script and the bytes written. A stream uses two descriptors.
class scripted_peer {
 public:
  template <class Loop>
  explicit scripted_peer(virtual_time_loop<Loop>& world) : scripted_peer(world.time, world.loop) {}
  scripted_peer(const scripted_peer&) = delete;
  scripted_peer& operator=(const scripted_peer&) = delete;
  ~scripted_peer();

  /// Sends a piece of bytes.
  scripted_peer& send(std::string_view bytes);
  /// Lets `delay` pass before the next action.
  scripted_peer& wait(duration delay);
  /// Waits with the next action until the program has written `text`, after the text of an earlier
  /// expect().
  scripted_peer& expect(std::string_view text);
  /// Ends the stream: reads return 0 bytes.
  scripted_peer& end();
  /// Makes one read fail with `error`, such as std::errc::connection_reset, and ends the stream.
  scripted_peer& fail(std::errc error);

  /// Makes one write take at most `bytes` bytes, which must be at least 1.
  scripted_peer& take_at_most(std::size_t bytes);
  /// Makes one write wait for `delay`, as if the peer did not read.
  scripted_peer& delay_write(duration delay);
  /// Makes one write fail with `error`, such as std::errc::broken_pipe.
  scripted_peer& fail_write(std::errc error);

  /// Returns the stream under test. Throws std::logic_error if called twice, and std::system_error
  /// if no descriptor is available.
  template <class Stream = io::stream>
  [[nodiscard]] Stream connect() {
    return Stream(loop_, open());
  }

  /// All bytes that the program has written.
  [[nodiscard]] const std::string& received() const noexcept;
  /// Whether the script has no action left, and the program has read all that was sent.
  [[nodiscard]] bool is_done() const noexcept;
  /// Whether the program has closed the stream, or shut down its sending side.
  [[nodiscard]] bool has_seen_end() const noexcept;

 private:
  scripted_peer(virtual_poller& time, event_loop& loop);
  unique_fd open();

  event_loop& loop_;
  std::shared_ptr<detail::scripted_connection> connection_;
};

}  // namespace gyre::testing
