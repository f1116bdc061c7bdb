// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/accept_websocket.hpp>

#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/shielded.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http {
namespace {

constexpr std::string_view websocket_version = "13";

// The bytes after the upgrade of a connection of HTTP/1.1.
class upgrade_transport final : public detail::websocket_transport {
 public:
  explicit upgrade_transport(upgraded_connection& connection) noexcept : connection_(connection) {}

  task<std::span<const std::byte>> receive() override {
    auto receiving = connection_.next();
    const auto bytes = co_await std::move(receiving);
    co_return bytes.value_or(std::span<const std::byte>());
  }
  task<> send(std::span<const std::byte> bytes) override { return connection_.write(bytes); }

 private:
  upgraded_connection& connection_;
};

struct accepted_websocket {
  event_loop* loop;
  move_only_function<task<>(websocket&)> serve;
  websocket_options options;
  detail::websocket_agreement agreement;
};

bool is_of_peer(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    return failure.code().category() == websocket_category();
  } catch (...) {
    return false;
  }
}

task<> serve_websocket(upgraded_connection& connection, accepted_websocket& accepted) {
  websocket socket(std::make_unique<detail::websocket_core>(
      *accepted.loop, std::make_unique<upgrade_transport>(connection),
      detail::websocket_role::server, accepted.options, std::move(accepted.agreement),
      connection.server_stop_token()));
  std::exception_ptr error;
  try {
    auto serving = accepted.serve(socket);
    co_await std::move(serving);
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  const bool has_failed = error && !is_of_peer(error);
  const bool was_cancelled = error == gyre::detail::cancellation();
  close_code code = has_failed ? close_code::internal_error : close_code::normal;
  if (was_cancelled) code = close_code::going_away;
  auto closing = as_result(shielded(socket.close(code)));
  co_await std::move(closing);
  if (has_failed) co_await gyre::detail::fail_with(error);
}

response refuse_websocket(status code, std::string_view reason) {
  return response::text(std::string(reason) + "\n", code);
}

response refuse_upgrade(std::string_view reason) {
  return refuse_websocket(status::upgrade_required, reason)
      .set("Upgrade", "websocket")
      .set("Sec-WebSocket-Version", websocket_version);
}

}  // namespace

response accept_websocket(const request& request, move_only_function<task<>(websocket&)> serve,
                          websocket_options options) {
  detail::check_websocket_options(options, "http::accept_websocket");
  const field_list fields = request.fields();
  if (request.method() != method::get) {
    return refuse_websocket(status::method_not_allowed, "A WebSocket is opened by GET.")
        .set("Allow", "GET");
  }
  const bool is_of_http2 = request.connect_protocol() == "websocket";
  const bool upgrades = request.minor_version() != 0 &&
                        detail::has_word(fields, "Upgrade", "websocket") &&
                        detail::has_word(fields, "Connection", "upgrade");
  if (!is_of_http2 && !upgrades) return refuse_upgrade("This resource is a WebSocket.");
  if (detail::only_field(fields, "Sec-WebSocket-Version") != websocket_version) {
    return refuse_upgrade("The version of WebSocket must be 13.");
  }
  const auto key = detail::only_field(fields, "Sec-WebSocket-Key");
  if (!is_of_http2 && (!key || !detail::is_websocket_key(*key))) {
    return refuse_websocket(status::bad_request,
                            "There must be one Sec-WebSocket-Key, of 16 bytes in Base64.");
  }
  if (!detail::allows_origin(fields, request.host(), options.allowed_origins)) {
    return refuse_websocket(status::forbidden, "Pages of this origin may not connect.");
  }
  accepted_websocket accepted{.loop = &request.loop(),
                              .serve = std::move(serve),
                              .options = std::move(options),
                              .agreement = {}};
  detail::websocket_agreement& agreement = accepted.agreement;
  agreement.subprotocol = detail::select_subprotocol(fields, accepted.options.subprotocols);
  std::optional<detail::deflate_reply> deflate;
  if (accepted.options.compression.enabled.value_or(false)) {
    deflate = detail::accept_deflate_offer(fields, accepted.options.compression);
  }
  if (deflate) agreement.deflate = deflate->agreement;
  const std::string subprotocol = agreement.subprotocol;
  // The options that the handshake needed are not kept for the life of the socket.
  accepted.options.subprotocols = {};
  accepted.options.allowed_origins = {};
  response result = response::upgrade(
      "websocket", [accepted = std::move(accepted)](upgraded_connection& connection) mutable {
        return serve_websocket(connection, accepted);
      });
  if (!is_of_http2) result.set("Sec-WebSocket-Accept", detail::accept_key_of(*key));
  if (!subprotocol.empty()) result.set("Sec-WebSocket-Protocol", subprotocol);
  if (deflate) result.set("Sec-WebSocket-Extensions", deflate->extension);
  return result;
}

}  // namespace gyre::http
