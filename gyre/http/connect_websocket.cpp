// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/connect_websocket.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/base/detail/system_random.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/client_connection.hpp>
#include <gyre/http/detail/client_core.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/incoming_response.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/http/detail/request_head.hpp>
#include <gyre/http/detail/websocket_callbacks.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_pump.hpp>
#include <gyre/http/detail/websocket_relay.hpp>
#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/http/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/received.hpp>
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
using detail::client_stream_pointer;
using detail::request_clock;

constexpr const char* function_name = "http::connect_websocket";
constexpr const char* opening = "opening a WebSocket";
constexpr unsigned switching_protocols = 101;

// A transport whose wait is a coroutine, which receives bytes once.
template <class Bytes>
class client_transport : public detail::websocket_transport {
 public:
  bool has_ended() const override {
    if (error_) std::rethrow_exception(error_);
    return has_ended_;
  }
  std::optional<task<>> begin_wait(detail::input_receiver& /*receiver*/) override { return read(); }
  void end_wait() noexcept override {}
  void interrupt() noexcept override {
    if (interruption_) interruption_->request_stop();
  }

 private:
  // Receives the next bytes; none at the end.
  virtual task<Bytes> receive() = 0;
  // Makes `bytes`, which receive() has returned, a part of input().
  virtual void keep(const Bytes& bytes) = 0;

  task<> read() {
    if (!interruption_ || interruption_->stop_requested()) interruption_.emplace();
    auto receiving = as_result(stop_when(receive(), interruption_->get_token()));
    auto bytes = co_await std::move(receiving);
    if (bytes) {
      keep(*bytes);
      has_ended_ = bytes->empty();
    } else if (!gyre::detail::is_cancelled(bytes.error())) {
      error_ = bytes.error();
    } else if (!interruption_->stop_requested()) {
      co_await gyre::detail::fail_with(bytes.error());  // the task was stopped, not the transport
    }
  }

  std::optional<inplace_stop_source> interruption_;
  std::exception_ptr error_;  // of the connection or the stream
  bool has_ended_ = false;
};

// A connection of HTTP/1.1 after the handshake.
class connection_transport final : public client_transport<io::received> {
 public:
  connection_transport(std::unique_ptr<client_connection> connection, event_loop& loop,
                       duration send_limit)
      : connection_(std::move(connection)),
        clock_(loop, std::chrono::nanoseconds(0), {}),
        send_limit_(send_limit) {}

  std::span<const std::byte> input() const noexcept override { return connection_->input.bytes(); }
  void consume(std::size_t count) noexcept override {
    connection_->input.consume(count);
    if (connection_->input.empty()) connection_->input.clear();
  }
  std::optional<task<>> send(std::span<const std::byte> bytes) override {
    return connection_->write_all(bytes, clock_, send_limit_, "sending a message");
  }

 private:
  task<io::received> receive() override {
    return connection_->receive(clock_, steady_time::max(), "");
  }
  void keep(const io::received& bytes) override { connection_->keep(bytes); }

  const std::unique_ptr<client_connection> connection_;
  const request_clock clock_;  // without a total limit
  const duration send_limit_;
};

// A stream of HTTP/2. A byte that the program has not taken gives no credit to the server.
class stream_transport final : public client_transport<std::span<const std::byte>> {
 public:
  stream_transport(client_stream_pointer stream, event_loop& loop, const client_options& options)
      : stream_(std::move(stream)),
        response_(options.limits, "GET"),
        clock_(loop, std::chrono::nanoseconds(0), {}),
        send_limit_(options.timeouts.send),
        response_limit_(options.timeouts.first_byte) {
    writer_.begin_request(detail::body_kind::chunked, 0, /*expects_continue=*/false);
  }

  // Sends the extended CONNECT, and returns the final response.
  task<const detail::incoming_response*> request(const client_request& outgoing,
                                                 detail::request_route route,
                                                 const request_clock& clock) {
    route.connect_protocol = "websocket";
    auto sending = stream_->send_head({.request = outgoing, .route = route, .framing = writer_},
                                      clock, send_limit_);
    co_await std::move(sending);
    const steady_time expiry = clock.expiry_of(response_limit_);
    for (;;) {
      const auto is_whole = stream_->take_head(response_);
      if (!is_whole) clock.fail(is_whole.error(), opening);
      if (*is_whole) {
        if (!response_.is_interim()) co_return &response_;
        if (const errc error = response_.skip_interim(); error != errc{}) {
          clock.fail(error, opening);
        }
        continue;
      }
      auto receiving = stream_->receive(clock, expiry, opening);
      const bool has_more = co_await std::move(receiving);
      if (!has_more) clock.fail(errc::no_response, opening);
    }
  }
  // Whether the server has not processed the request, or wants it in HTTP/1.1.
  bool is_unprocessed() const noexcept { return stream_->is_unprocessed(); }

  std::span<const std::byte> input() const noexcept override { return input_; }
  void consume(std::size_t count) noexcept override { input_ = input_.subspan(count); }
  std::optional<task<>> send(std::span<const std::byte> bytes) override {
    return stream_->send_body(writer_, bytes, clock_, send_limit_);
  }

 private:
  task<std::span<const std::byte>> receive() override {
    constexpr const char* phase = "receiving a message";
    for (;;) {
      const auto piece = stream_->take_piece(response_);
      if (!piece) clock_.fail(piece.error(), phase);
      if (!piece->empty() || !response_.reader().expects_body()) co_return *piece;
      auto receiving = stream_->receive(clock_, steady_time::max(), phase);
      const bool has_more = co_await std::move(receiving);
      if (!has_more) co_return std::span<const std::byte>();
    }
  }

  void keep(const std::span<const std::byte>& bytes) override { input_ = bytes; }

  client_stream_pointer stream_;
  detail::incoming_response response_;
  detail::message_writer writer_;
  const request_clock clock_;  // without a total limit
  const duration send_limit_;
  const duration response_limit_;
  std::span<const std::byte> input_;  // bytes of the stream's last piece
};

std::string make_key() {
  std::array<std::byte, 16> key;
  gyre::detail::require_random(key, function_name);
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

// An opened socket is a transport after its handshake, with what both sides have agreed on.
struct opened_websocket {
  event_loop& loop;
  std::unique_ptr<detail::websocket_transport> transport;
  detail::websocket_agreement agreement;
  websocket_options options;
};

// A client_handshake is the handshake of one call of connect_websocket().
class client_handshake {
 public:
  client_handshake(std::shared_ptr<detail::client_core> core, websocket_options options,
                   std::string_view url)
      : core_(std::move(core)),
        options_(std::move(options)),
        compresses_(options_.compression.enabled.value_or(true)),
        request_(make_request(url, options_, compresses_)),
        key_(make_key()),
        clock_(core_->loop(), core_->options().timeouts.total,
               "GET " + request_.url().to_string()) {}

  task<opened_websocket> run() {
    auto opening_stream = open_stream();
    transport_pointer transport = co_await std::move(opening_stream);
    if (transport == nullptr) {
      auto opening_connection = open_connection();
      transport = co_await std::move(opening_connection);
    }
    co_return opened_websocket{.loop = core_->loop(),
                               .transport = std::move(transport),
                               .agreement = std::move(agreement_),
                               .options = std::move(options_)};
  }

 private:
  using transport_pointer = std::unique_ptr<detail::websocket_transport>;

  // --- HTTP/2 ---

  // Opens the socket on a stream. Returns null if HTTP/1.1 is to be used.
  task<transport_pointer> open_stream() {
    const bool is_required = options_.http2 == websocket_http2::always;
    const detail::client_destination destination = core_->tunnel_destination_of(request_.url());
    for (bool is_repeated = false;; is_repeated = true) {
      auto acquiring = acquire_stream(destination);
      client_stream_pointer stream = co_await std::move(acquiring);
      if (stream == nullptr) co_return nullptr;
      auto transport =
          std::make_unique<stream_transport>(std::move(stream), core_->loop(), core_->options());
      auto sending = as_result(transport->request(request_, make_route(), clock_));
      const auto response = co_await std::move(sending);
      if (response) {
        read_agreement(*response.value(), [](unsigned status) { return status / 100 == 2; });
        co_return transport;
      }
      // The server may just have announced the end of the connection.
      const bool may_retry = transport->is_unprocessed() && !is_repeated;
      if (!may_retry) std::rethrow_exception(response.error());
      if (!is_required) co_return nullptr;
    }
  }

  task<client_stream_pointer> acquire_stream(const detail::client_destination& destination) {
    if (options_.http2 == websocket_http2::never) co_return nullptr;
    if (options_.http2 == websocket_http2::if_connected) {
      co_return core_->try_open_websocket(destination);
    }
    auto acquiring =
        clock_.wait(core_->acquire(destination, false), steady_time::max(), "connecting");
    client_stream_pointer stream = co_await std::move(acquiring);
    const steady_time expiry = clock_.expiry_of(core_->options().timeouts.first_byte);
    auto asking = stream->allows_websocket(clock_, expiry);
    const bool allows = co_await std::move(asking);
    if (!allows) fail("the server does not allow WebSockets over HTTP/2");
    co_return stream;
  }

  // --- HTTP/1.1 ---

  task<transport_pointer> open_connection() {
    auto connecting =
        clock_.wait(core_->connect_alone(request_.url()), steady_time::max(), "connecting");
    connection_ = co_await std::move(connecting);
    co_await send_request();
    detail::incoming_response response(core_->options().limits, "GET");
    auto reading = read_response(response);
    co_await std::move(reading);
    const field_list fields = response.fields();
    read_agreement(response, [](unsigned status) { return status == switching_protocols; });
    if (!detail::has_word(fields, "Upgrade", "websocket") ||
        !detail::has_word(fields, "Connection", "upgrade")) {
      fail("the server does not switch to WebSocket");
    }
    if (fields.get("Sec-WebSocket-Accept") != detail::accept_key_of(key_)) {
      fail("Sec-WebSocket-Accept does not match the key");
    }
    co_return std::make_unique<connection_transport>(std::move(connection_), core_->loop(),
                                                     core_->options().timeouts.send);
  }

  task<> send_request() {
    detail::message_writer writer;
    std::string head = make_request_head(request_, make_route(), writer);
    head.resize(head.size() - 2);  // the empty line
    head.append("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ").append(key_);
    head.append("\r\n\r\n");
    auto writing = connection_->write_all(std::as_bytes(std::span(head)), clock_,
                                          core_->options().timeouts.send, opening);
    co_await std::move(writing);
  }

  // Reads heads until that of the final response, or of 101.
  task<> read_response(detail::incoming_response& response) {
    const steady_time expiry = clock_.expiry_of(core_->options().timeouts.first_byte);
    for (bool has_begun = false;;) {
      const auto is_whole = response.take_head(connection_->input);
      if (!is_whole) clock_.fail(is_whole.error(), opening);
      if (*is_whole) {
        if (!response.is_interim() || response.head().status == switching_protocols) co_return;
        if (const errc error = response.skip_interim(); error != errc{}) {
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

  // --- Both versions ---

  detail::request_route make_route() const {
    detail::request_route route;
    if (core_->options().cookies && !request_.fields().contains("Cookie")) {
      route.cookies = core_->cookies.header_for(request_.url());
    }
    return route;
  }

  // Reads what the server has agreed on. `is_success`: whether a status opens the socket.
  template <class Predicate>
  void read_agreement(const detail::incoming_response& response, Predicate is_success) {
    const field_list fields = response.fields();
    if (core_->options().cookies) {
      for (const field& each : fields) {
        if (!detail::equals_lower(each.name, "set-cookie")) continue;
        core_->cookies.receive(request_.url(), each.value);
      }
    }
    const unsigned status_code = response.head().status;
    if (!is_success(status_code)) {
      throw websocket_refused(
          static_cast<status>(status_code),
          clock_.describe(std::string(opening) + ": status " + std::to_string(status_code)));
    }
    agreement_.subprotocol = fields.get("Sec-WebSocket-Protocol").value_or("");
    const auto& offered = options_.subprotocols;
    if (fields.get("Sec-WebSocket-Protocol") &&
        std::ranges::find(offered, agreement_.subprotocol) == offered.end()) {
      fail("the server selects a subprotocol that was not offered");
    }
    auto deflate = detail::read_deflate_reply(fields, options_.compression, compresses_);
    if (!deflate) fail(deflate.error());
    agreement_.deflate = *deflate;
  }

  [[noreturn, gnu::cold]] void fail(const std::string& reason) const {
    clock_.fail(websocket_errc::bad_handshake, std::string(opening) + ": " + reason);
  }

  const std::shared_ptr<detail::client_core> core_;
  websocket_options options_;
  const bool compresses_;
  const client_request request_;
  const std::string key_;
  const request_clock clock_;
  detail::websocket_agreement agreement_;
  std::unique_ptr<client_connection> connection_;  // of HTTP/1.1
};

// Opens a WebSocket on the loop of `core`.
task<opened_websocket> open(std::shared_ptr<detail::client_core> core, std::string url,
                            websocket_options options) {
  client_handshake handshake(std::move(core), std::move(options), url);
  auto running = handshake.run();
  co_return co_await std::move(running);
}

// Opens a WebSocket of a client, which may have been moved from, or run on another loop.
task<opened_websocket> open_of(std::shared_ptr<detail::client_core> core, std::string url,
                               websocket_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  detail::check_websocket_options(options, function_name);
  if (core == nullptr) {
    throw std::system_error(make_error_code(io::errc::not_open), function_name);
  }
  if (context.where != &core->loop() && !core->loop().in_loop_thread()) {
    throw std::system_error(make_error_code(io::errc::wrong_thread), function_name);
  }
  auto opening_socket = open(std::move(core), std::move(url), std::move(options));
  co_return co_await std::move(opening_socket);
}

// Opens a WebSocket by a client of its own, on the loop that runs the coroutine.
task<opened_websocket> open_alone(std::string url, websocket_options options,
                                  client_options connecting) {
  const task_context& context = co_await gyre::detail::this_context();
  detail::check_websocket_options(options, function_name);
  auto* loop = dynamic_cast<event_loop*>(context.where);
  if (loop == nullptr) loop = event_loop::current();
  if (loop == nullptr) {
    throw std::system_error(make_error_code(io::errc::wrong_thread), function_name);
  }
  auto opening_socket = open(std::make_shared<detail::client_core>(*loop, std::move(connecting)),
                             std::move(url), std::move(options));
  co_return co_await std::move(opening_socket);
}

task<websocket> make_websocket(task<opened_websocket> opening_socket) {
  opened_websocket opened = co_await std::move(opening_socket);
  co_return websocket(detail::websocket_pointer(new detail::websocket_pump(
      opened.loop, std::move(opened.transport), detail::websocket_role::client, opened.options,
      std::move(opened.agreement), inplace_stop_token())));
}

task<> call_handlers(task<opened_websocket> opening_socket, websocket_handlers handlers) {
  opened_websocket opened = co_await std::move(opening_socket);
  detail::websocket_relay socket(
      opened.loop, std::move(opened.transport), detail::websocket_role::client, opened.options,
      std::move(opened.agreement), detail::websocket_callbacks(std::move(handlers)),
      inplace_stop_token());
  auto running = socket.run();
  co_await std::move(running);
}

}  // namespace

namespace detail {

task<websocket> connect_websocket_alone(std::string url, websocket_options options,
                                        client_options connecting) {
  return make_websocket(open_alone(std::move(url), std::move(options), std::move(connecting)));
}

task<websocket> connect_websocket_of(const client& owner, std::string url,
                                     websocket_options options) {
  return make_websocket(open_of(core_of(owner), std::move(url), std::move(options)));
}

}  // namespace detail

task<> connect_websocket(std::string_view url, websocket_handlers handlers,
                         websocket_options options, client_options connecting) {
  return call_handlers(open_alone(std::string(url), std::move(options), std::move(connecting)),
                       std::move(handlers));
}

task<> connect_websocket(const client& owner, std::string_view url, websocket_handlers handlers,
                         websocket_options options) {
  return call_handlers(open_of(detail::core_of(owner), std::string(url), std::move(options)),
                       std::move(handlers));
}

}  // namespace gyre::http
