// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/tls_context.hpp>

#include <gyre/base/detail/read_file.hpp>
#include <gyre/tls/detail/context_state.hpp>
#include <gyre/tls/error.hpp>

#include <string>
#include <system_error>
#include <utility>

namespace gyre::tls {
namespace {

detail::context_state& state_of(const std::shared_ptr<detail::context_state>& state) {
  if (state == nullptr) {
    throw std::system_error(errc::bad_configuration, "gyre::tls::tls_context: empty");
  }
  return *state;
}

}  // namespace

std::string pem::read() const {
  if (!is_file_) return content_;
  auto text = gyre::detail::read_file(content_.c_str());
  if (!text) {
    throw std::system_error(text.error(), std::generic_category(), "gyre::tls: " + content_);
  }
  return *std::move(text);
}

tls_context tls_context::server(server_options options) {
  return tls_context(std::make_shared<detail::context_state>(std::move(options)));
}
tls_context tls_context::client(client_options options) {
  return tls_context(std::make_shared<detail::context_state>(std::move(options)));
}
const tls_context& tls_context::default_client() {
  static const tls_context instance = client();
  return instance;
}

bool tls_context::is_server() const noexcept { return state_ != nullptr && state_->is_server(); }
std::chrono::nanoseconds tls_context::handshake_timeout() const noexcept {
  return state_ == nullptr ? duration::zero() : state_->current()->handshake_timeout;
}

void tls_context::reload() const { state_of(state_).reload(); }
void tls_context::reload(server_options options) const {
  state_of(state_).reload(std::move(options));
}
void tls_context::reload(client_options options) const {
  state_of(state_).reload(std::move(options));
}

}  // namespace gyre::tls
