// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/connect_websocket.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/base/detail/system_random.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/client_connection.hpp>
#include <gyre/http/detail/client_core.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/incoming_response.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/http/detail/request_head.hpp>
#include <gyre/http/detail/serve_websocket.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

namespace gyre::http {
namespace {

using detail::client_connection;
using detail::request_clock;

constexpr const char* opening = "opening a WebSocket";
constexpr unsigned switching_protocols = 101;

// The connection of a client after the handshake.
class client_transport final : public detail::websocket_transport {
 public:
  client_transport(std::unique_ptr<client_connection> connection, event_loop& loop,
                   duration send_limit)
      : connection_(std::move(connection)),
        clock_(loop, std::chrono::nanoseconds(0), {}),
        send_limit_(send_limit) {}

  std::span<const std::byte> input() const noexcept override { return connection_->input.bytes(); }
  void consume(std::size_t count) noexcept override {
    connection_->input.consume(count);
    if (connection_->input.empty()) connection_->input.clear();
  }
  bool has_ended() const override {
    if (error_) std::rethrow_exception(error_);
    return has_ended_;
  }
  std::optional<task<>> begin_wait(detail::input_receiver& /*receiver*/) override { return read(); }
  void end_wait() noexcept override {}
  void interrupt() noexcept override {
    if (interruption_) interruption_->request_stop();
  }
  std::optional<task<>> send(std::span<const std::byte> bytes) override {
    return connection_->write_all(bytes, clock_, send_limit_, "sending a message");
  }

 private:
  task<> read() {
    if (!interruption_ || interruption_->stop_requested()) interruption_.emplace();
    auto receiving = as_result(stop_when(connection_->receive(clock_, steady_time::max(), ""),
                                         interruption_->get_token()));
    auto bytes = co_await std::move(receiving);
    if (bytes) {
      connection_->keep(*bytes);
      has_ended_ = bytes->empty();
    } else if (!interruption_->stop_requested() || !gyre::detail::is_cancelled(bytes.error())) {
      error_ = bytes.error();
    }
  }

  const std::unique_ptr<client_connection> connection_;
  const request_clock clock_;  // without a total limit
  const duration send_limit_;
  std::optional<inplace_stop_source> interruption_;
  std::exception_ptr error_;  // of the connection
  bool has_ended_ = false;
};

std::string make_key() {
  std::array<std::byte, 16> key;
  gyre::detail::require_random(key, "http::connect_websocket");
  return gyre::detail::encode_base64(key);
}

// Returns the request of the handshake. Its URL has the scheme http or https.
client_request make_request(std::string_view text, const websocket_options& options,
                            bool compresses) {
  std::string target(text);
  const std::size_t colon = target.find(':');
  const std::string_view scheme = std::string_view(target).substr(0, colon);
  if (detail::equals_lower(scheme, "ws") || detail::equals_lower(scheme, "wss")) {
    target.replace(0, 2, "http");
  }
  client_request request(method::get, target);
  request.fields() = options.fields;
  for (std::string_view name : {"Sec-WebSocket-Version", "Sec-WebSocket-Protocol",
                                "Sec-WebSocket-Extensions", "Connection"}) {
    request.fields().erase(name);
  }
  std::string subprotocols;
  for (const std::string& each : options.subprotocols) {
    subprotocols.append(subprotocols.empty() ? "" : ", ").append(each);
  }
  request.set("Sec-WebSocket-Version", "13");
  if (!subprotocols.empty()) request.set("Sec-WebSocket-Protocol", subprotocols);
  if (compresses) {
    request.set("Sec-WebSocket-Extensions", detail::make_deflate_offer(options.compression));
  }
  return request;
}

// A client_handshake is the handshake of one call of connect_websocket().
class client_handshake {
 public:
  client_handshake(event_loop& loop, client_options connecting, websocket_options options,
                   std::string_view url)
      : core_(loop, std::move(connecting)),
        options_(std::move(options)),
        compresses_(options_.compression.enabled.value_or(true)),
        request_(make_request(url, options_, compresses_)),
        key_(make_key()),
        clock_(loop, core_.options().timeouts.total, "GET " + request_.url().to_string()),
        response_(core_.options().limits, "GET") {}

  task<websocket> run() {
    auto connecting =
        clock_.wait(core_.connect_alone(request_.url()), steady_time::max(), "connecting");
    connection_ = co_await std::move(connecting);
    co_await send_request();
    co_await read_response();
    detail::websocket_agreement agreement = check_response();
    const duration send_limit = core_.options().timeouts.send;
    event_loop& loop = core_.loop();
    co_return websocket(std::make_unique<detail::websocket_core>(
        loop, std::make_unique<client_transport>(std::move(connection_), loop, send_limit),
        detail::websocket_role::client, options_, std::move(agreement), inplace_stop_token()));
  }

 private:
  task<> send_request() {
    detail::message_writer writer;
    std::string head = make_request_head(request_, {}, writer);
    head.resize(head.size() - 2);  // the empty line
    head.append("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ").append(key_);
    head.append("\r\n\r\n");
    auto writing = connection_->write_all(std::as_bytes(std::span(head)), clock_,
                                          core_.options().timeouts.send, opening);
    co_await std::move(writing);
  }

  // Reads heads until that of the final response, or of 101.
  task<> read_response() {
    const steady_time expiry = clock_.expiry_of(core_.options().timeouts.first_byte);
    for (bool has_begun = false;;) {
      const auto is_whole = response_.take_head(connection_->input);
      if (!is_whole) clock_.fail(is_whole.error(), opening);
      if (*is_whole) {
        if (!response_.is_interim() || response_.head().status == switching_protocols) co_return;
        if (const errc error = response_.skip_interim(); error != errc{}) {
          clock_.fail(error, opening);
        }
        continue;
      }
      auto receiving = connection_->receive(clock_, expiry, opening);
      const io::received bytes = co_await std::move(receiving);
      connection_->keep(bytes);
      if (bytes.empty()) clock_.fail(has_begun ? errc::truncated : errc::no_response, opening);
      has_begun = true;
    }
  }

  detail::websocket_agreement check_response() const {
    const field_list fields = response_.fields();
    const unsigned status_code = response_.head().status;
    if (status_code != switching_protocols) {
      throw websocket_refused(
          static_cast<status>(status_code),
          clock_.describe(std::string(opening) + ": status " + std::to_string(status_code)));
    }
    if (!detail::has_word(fields, "Upgrade", "websocket") ||
        !detail::has_word(fields, "Connection", "upgrade")) {
      fail("the server does not switch to WebSocket");
    }
    if (fields.get("Sec-WebSocket-Accept") != detail::accept_key_of(key_)) {
      fail("Sec-WebSocket-Accept does not match the key");
    }
    detail::websocket_agreement agreement;
    agreement.subprotocol = fields.get("Sec-WebSocket-Protocol").value_or("");
    const auto& offered = options_.subprotocols;
    if (fields.get("Sec-WebSocket-Protocol") &&
        std::ranges::find(offered, agreement.subprotocol) == offered.end()) {
      fail("the server selects a subprotocol that was not offered");
    }
    auto deflate = detail::read_deflate_reply(fields, options_.compression, compresses_);
    if (!deflate) fail(deflate.error());
    agreement.deflate = *deflate;
    return agreement;
  }

  [[noreturn, gnu::cold]] void fail(const std::string& reason) const {
    clock_.fail(websocket_errc::bad_handshake, std::string(opening) + ": " + reason);
  }

  detail::client_core core_;
  websocket_options options_;
  const bool compresses_;
  client_request request_;
  const std::string key_;
  const request_clock clock_;
  detail::incoming_response response_;
  std::unique_ptr<client_connection> connection_;
};

}  // namespace

namespace detail {

task<websocket> connect_websocket_alone(std::string url, websocket_options options,
                                        client_options connecting) {
  const task_context& context = co_await gyre::detail::this_context();
  check_websocket_options(options, "http::connect_websocket");
  auto* loop = dynamic_cast<event_loop*>(context.where);
  if (loop == nullptr) loop = event_loop::current();
  if (loop == nullptr) {
    throw std::system_error(make_error_code(io::errc::wrong_thread), "http::connect_websocket");
  }
  client_handshake handshake(*loop, std::move(connecting), std::move(options), url);
  auto running = handshake.run();
  websocket socket = co_await std::move(running);
  co_return socket;
}

}  // namespace detail

namespace {

task<> connect_and_serve(std::string url, websocket_handlers handlers, websocket_options options,
                         client_options connecting) {
  const std::size_t output_limit = options.limits.output;
  auto opening_socket =
      detail::connect_websocket_alone(std::move(url), std::move(options), std::move(connecting));
  websocket socket = co_await std::move(opening_socket);
  auto serving = detail::serve_websocket(
      std::move(socket), [handlers = std::move(handlers), output_limit](websocket& opened) mutable {
        return detail::run_handlers(opened, std::move(handlers), output_limit);
      });
  co_await std::move(serving);
}

}  // namespace

task<> connect_websocket(std::string_view url, websocket_handlers handlers,
                         websocket_options options, client_options connecting) {
  return connect_and_serve(std::string(url), std::move(handlers), std::move(options),
                           std::move(connecting));
}

}  // namespace gyre::http
