// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/websocket.hpp>

#include <gyre/http/detail/utf8_validator.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/io/error.hpp>

#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::http {

namespace detail {

void websocket_releaser::operator()(websocket_core* core) const noexcept { core->drop(); }

}  // namespace detail

websocket::websocket(detail::websocket_pointer core) noexcept : core_(std::move(core)) {}
websocket::websocket(websocket&& other) noexcept = default;
websocket& websocket::operator=(websocket&& other) noexcept = default;
websocket::~websocket() = default;

detail::websocket_core& websocket::opened() const {
  if (core_ != nullptr) [[likely]]
    return *core_;
  throw std::system_error(make_error_code(io::errc::not_open), "http::websocket");
}

detail::websocket_receive websocket::receive() { return {opened(), detail::receiving::messages}; }

detail::websocket_receive websocket::receive_piece() {
  return {opened(), detail::receiving::pieces};
}

detail::websocket_send websocket::send_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  if (!detail::is_utf8(bytes)) {
    throw std::invalid_argument("http::websocket::send_text: the text is not UTF-8");
  }
  return {opened(), {.kind = websocket_kind::text, .bytes = bytes}};
}

detail::websocket_send websocket::send_binary(std::span<const std::byte> bytes) {
  return {opened(), {.kind = websocket_kind::binary, .bytes = bytes}};
}

detail::websocket_send websocket::send(websocket_message message) { return {opened(), message}; }

task<> websocket::send(prepared_message message) {
  return opened().send_encoded_message(std::move(message));
}

task<> websocket::send_all(std::span<const prepared_message> messages) {
  return opened().send_all(messages);
}

task<> websocket::close(close_code code, std::string_view reason) {
  detail::check_close(code, reason);
  return opened().close_socket(code, std::string(reason));
}

bool websocket::is_open() const noexcept { return core_ != nullptr && core_->is_open(); }

std::optional<close_code> websocket::close_status() const noexcept {
  return core_ != nullptr ? core_->session().received_close() : std::nullopt;
}

std::string_view websocket::close_reason() const noexcept {
  return core_ != nullptr ? core_->session().received_reason() : std::string_view();
}

std::string_view websocket::subprotocol() const noexcept {
  return core_ != nullptr ? core_->session().subprotocol() : std::string_view();
}

bool websocket::is_compressed() const noexcept {
  return core_ != nullptr && core_->session().is_compressed();
}

event_loop& websocket::loop() const { return opened().loop(); }

}  // namespace gyre::http
