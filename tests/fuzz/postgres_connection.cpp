// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a connection to a PostgreSQL server that sends any bytes after its login. Each
// request ends, with its reply or an error, whatever is abandoned or cancelled.
//
// An input is a byte for each call, and then pieces of the server's bytes.
#include <gyre/engines/postgres/detail/connection_core.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/fuzz/fuzz.hpp>
#include <tests/support/postgres_peer.hpp>
#include <tests/support/postgres_requests.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using gyre::task;
using gyre::fuzz::decisions;
using gyre::fuzz::require;
using gyre::postgres::detail::connection_core;
using gyre::test::sent_request;
using gyre::test::server_bytes;

class copy_request final : public sent_request {
 public:
  using sent_request::sent_request;
  bool is_copy_in() const noexcept override { return true; }
  void on_copy_in() noexcept override {
    core().copy_data({});
    core().copy_done();
  }
  void on_copy_data(std::span<const std::byte>) noexcept override {
    core().pause_reading();
    core().resume_reading();
  }
};

std::string make_piece(decisions& decide) {
  using gyre::test::prepared_bytes;
  using gyre::test::ready_bytes;
  using gyre::test::row_bytes;
  using gyre::test::tag_bytes;
  static constexpr std::string_view kinds = "1234567CDEGHIKNRSTWZcdnstv";
  switch (decide.below(14)) {
    case 0: return prepared_bytes();
    case 1:
    case 2: return ready_bytes("ITEX"[decide.below(4)]);
    case 3: return row_bytes("x");
    case 4: return tag_bytes("SELECT 1");
    case 5: return server_bytes('E', std::string_view("SERROR\0C22012\0Mx\0\0", 19));
    case 6: return server_bytes('E', std::string_view("SFATAL\0C57P01\0Mx\0\0", 19));
    case 7: return server_bytes('G', std::string_view("\0\0\0", 3));
    case 8: return server_bytes('H', std::string_view("\0\0\0", 3));
    case 9: return server_bytes('d', "x");
    case 10: return server_bytes('c');
    case 11: return server_bytes('2') + row_bytes("y") + tag_bytes("SELECT 1") + ready_bytes();
    case 12: return server_bytes(kinds[decide.below(kinds.size())], decide.text(decide.below(32)));
    default: return std::string(decide.text(decide.below(32)));
  }
}

// Makes a call, and decides by `kind` whether it waits.
task<> call(std::shared_ptr<connection_core> core, std::size_t kind) {
  if (kind % 2 == 0) {
    auto running = gyre::as_result(gyre::test::run_statement(core, "select 1"));
    static_cast<void>(co_await std::move(running));
    co_return;
  }
  auto admission = gyre::as_result(gyre::test::admit(core));
  if (!(co_await std::move(admission))) co_return;
  if (kind % 4 == 1) {
    copy_request request(core);
    core->query(request, "copy t from stdin");
    co_await request.wait();
    require(!request.is_in_flight());
    co_return;
  }
  sent_request request(core);
  core->query(request, "select 1");
  if (kind % 8 == 3) core->cancel(request);
  if (kind % 16 == 7) co_return;  // abandoned
  co_await request.wait();
  require(!request.is_in_flight());
}

task<> call_all(std::shared_ptr<connection_core> core, std::vector<std::size_t> kinds) {
  std::vector<task<>> calls;
  for (const std::size_t each : kinds) calls.push_back(call(core, each));
  auto all = gyre::when_all(std::move(calls));
  auto ended = gyre::as_result(std::move(all));
  static_cast<void>(co_await std::move(ended));
  core->close();
}

// The bytes of a connection are sent one piece after the other, and then its end.
task<> serve(gyre::net::tcp_listener& listener, std::vector<std::string> pieces) {
  gyre::net::tcp_stream peer = co_await listener.accept();
  auto receiving = gyre::as_result(peer.receive());
  static_cast<void>(co_await std::move(receiving));
  for (const std::string& each : pieces) {
    if (each.empty()) continue;
    auto writing = gyre::as_result(peer.write_all(each));
    if (!(co_await std::move(writing))) co_return;
  }
  peer.close();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decisions decide(data, size);
  std::vector<std::size_t> kinds;
  for (std::size_t count = 1 + decide.below(6); count > 0; --count)
    kinds.push_back(decide.below(16));
  std::vector<std::string> pieces;
  pieces.push_back(decide.below(8) == 0 ? "" : gyre::test::login_bytes());
  while (!decide.empty()) pieces.push_back(make_piece(decide));

  gyre::loop loop;
  gyre::net::tcp_listener listener(loop,
                                   gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0));
  gyre::postgres::detail::connection_options options;
  options.is_shared = decide.flip();
  options.reconnects = false;
  options.max_connect_attempts = 1;
  options.cancel_delay = std::chrono::milliseconds{0};
  const auto core = gyre::test::make_core(loop, listener.local_endpoint().to_string(), options);
  auto both = gyre::when_all(serve(listener, std::move(pieces)), call_all(core, std::move(kinds)));
  gyre::sync_wait(loop, std::move(both));
  require(core->in_flight() == 0);
  return 0;
}
