// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/accept_websocket.hpp>

#include <gyre/http/detail/body_access.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/serve_websocket.hpp>
#include <gyre/http/detail/upgrade_transport.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/websocket_connection.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::http {
namespace {

constexpr std::string_view websocket_version = "13";

struct accepted_websocket {
  event_loop* loop;
  move_only_function<task<>(websocket&)> serve;
  websocket_options options;
  detail::websocket_agreement agreement;
  bool is_of_http2;
};

task<> serve_upgrade(upgraded_connection& connection, accepted_websocket& accepted) {
  websocket socket(std::make_unique<detail::websocket_core>(
      *accepted.loop, std::make_unique<detail::upgrade_transport>(connection, accepted.is_of_http2),
      detail::websocket_role::server, accepted.options, std::move(accepted.agreement),
      connection.server_stop_token()));
  return detail::serve_websocket(std::move(socket), std::move(accepted.serve));
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
  detail::websocket_agreement agreement;
  agreement.subprotocol = detail::select_subprotocol(fields, options.subprotocols);
  std::optional<detail::deflate_reply> deflate;
  if (options.compression.enabled.value_or(false)) {
    deflate = detail::accept_deflate_offer(fields, options.compression);
  }
  if (deflate) agreement.deflate = deflate->agreement;
  const std::string subprotocol = agreement.subprotocol;
  // The options are freed when the socket opens, which does not need them any more.
  auto accepted =
      std::make_unique<accepted_websocket>(accepted_websocket{.loop = &request.loop(),
                                                              .serve = std::move(serve),
                                                              .options = std::move(options),
                                                              .agreement = std::move(agreement),
                                                              .is_of_http2 = is_of_http2});
  response result = response::upgrade(
      "websocket", [accepted = std::move(accepted)](upgraded_connection& connection) mutable {
        const auto opened = std::move(accepted);
        return serve_upgrade(connection, *opened);
      });
  detail::body_access::release_request(result);
  if (!is_of_http2) result.set("Sec-WebSocket-Accept", detail::accept_key_of(*key));
  if (!subprotocol.empty()) result.set("Sec-WebSocket-Protocol", subprotocol);
  if (deflate) result.set("Sec-WebSocket-Extensions", deflate->extension);
  return result;
}

response accept_websocket(const request& request, websocket_handlers handlers,
                          websocket_options options) {
  const std::size_t output_limit = options.limits.output;
  return accept_websocket(
      request,
      [handlers = std::move(handlers), output_limit](websocket& socket) mutable {
        return detail::run_handlers(socket, std::move(handlers), output_limit);
      },
      std::move(options));
}

}  // namespace gyre::http
