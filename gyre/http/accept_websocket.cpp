// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/accept_websocket.hpp>

#include <gyre/http/detail/body_access.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/serve_websocket.hpp>
#include <gyre/http/detail/served_websocket.hpp>
#include <gyre/http/detail/upgrade_transport.hpp>
#include <gyre/http/detail/websocket_callbacks.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_protocol.hpp>
#include <gyre/http/detail/websocket_pump.hpp>
#include <gyre/http/detail/websocket_relay.hpp>

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
  websocket_options options;
  detail::websocket_agreement agreement;
};

// The options are freed when the socket opens, which does not need them any more.
task<> call_function(upgraded_connection& connection, std::unique_ptr<accepted_websocket> accepted,
                     move_only_function<task<>(websocket&)> serve) {
  return detail::serve_websocket(
      websocket(detail::websocket_pointer(new detail::websocket_pump(
          *accepted->loop, std::make_unique<detail::upgrade_transport>(connection),
          detail::websocket_role::server, accepted->options, std::move(accepted->agreement),
          connection.server_stop_token()))),
      std::move(serve));
}

task<> call_handlers(upgraded_connection& connection, std::unique_ptr<accepted_websocket> accepted,
                     detail::websocket_callbacks callbacks) {
  detail::websocket_relay socket(
      *accepted->loop, std::make_unique<detail::upgrade_transport>(connection),
      detail::websocket_role::server, accepted->options, std::move(accepted->agreement),
      std::move(callbacks), connection.server_stop_token());
  accepted.reset();  // the socket does not need the options any more
  auto running = socket.run();
  co_await std::move(running);
}

response refuse_websocket(status code, std::string_view reason) {
  return response::text(std::string(reason) + "\n", code);
}

response refuse_upgrade(std::string_view reason) {
  return refuse_websocket(status::upgrade_required, reason)
      .set("Upgrade", "websocket")
      .set("Sec-WebSocket-Version", websocket_version);
}

// Returns the response to a request, which opens a WebSocket if `accepted` gets an object. A
// response that refuses the request says why.
response answer_handshake(const request& request, websocket_options options,
                          std::unique_ptr<accepted_websocket>& accepted) {
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
  // The function of the upgrade is set by the caller.
  response result = response::upgrade("websocket", {});
  detail::body_access::release_request(result);
  if (!is_of_http2) result.set("Sec-WebSocket-Accept", detail::accept_key_of(*key));
  if (!agreement.subprotocol.empty()) {
    result.set("Sec-WebSocket-Protocol", agreement.subprotocol);
  }
  if (deflate) result.set("Sec-WebSocket-Extensions", deflate->extension);
  accepted = std::make_unique<accepted_websocket>(accepted_websocket{
      .loop = &request.loop(), .options = std::move(options), .agreement = std::move(agreement)});
  return result;
}

// Returns the response to a handshake. If it accepts, one of two ways is gone, once: a `Protocol`
// takes the connection over if that is possible, else `run` serves the socket.
template <class Protocol, class Program, class Run>
response accept_program(const request& request, Program program, websocket_options options,
                        Run run) {
  struct accepted_program {
    std::unique_ptr<accepted_websocket> socket;
    Program program;
  };
  std::unique_ptr<accepted_websocket> socket;
  response result = answer_handshake(request, std::move(options), socket);
  if (socket == nullptr) return result;
  auto accepted =
      std::make_shared<accepted_program>(accepted_program{std::move(socket), std::move(program)});
  detail::body_access::set_protocol(
      result, [accepted](net::tcp_connection& tcp, detail::server_shard& shard,
                         detail::upgraded_request upgraded) {
        accepted_websocket& socket = *accepted->socket;
        return detail::connection_protocol_pointer(
            new Protocol(std::move(accepted->program), tcp, shard, std::move(upgraded),
                         socket.options, std::move(socket.agreement)));
      });
  detail::body_access::set_upgrade(result, [accepted, run](upgraded_connection& connection) {
    return run(connection, std::move(accepted->socket), std::move(accepted->program));
  });
  return result;
}

}  // namespace

response accept_websocket(const request& request, move_only_function<task<>(websocket&)> serve,
                          websocket_options options) {
  return accept_program<detail::served_websocket>(request, std::move(serve), std::move(options),
                                                  &call_function);
}

response accept_websocket(const request& request, websocket_handlers handlers,
                          websocket_options options) {
  return accept_program<detail::handler_protocol>(request,
                                                  detail::websocket_callbacks(std::move(handlers)),
                                                  std::move(options), &call_handlers);
}

}  // namespace gyre::http
