// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_send.hpp>

#include <gyre/http/detail/websocket_core.hpp>

#include <utility>

namespace gyre::http::detail {

bool websocket_send::await_ready() {
  auto rest = core_->send_message(message_);
  if (!rest) return true;
  rest_ = std::move(*rest);
  has_rest_ = true;
  return false;
}

}  // namespace gyre::http::detail
