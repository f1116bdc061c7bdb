// SPDX-License-Identifier: Apache-2.0
// websocket_callbacks: the websocket_handlers of one socket, in as little memory as they need.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/http/detail/websocket_driver.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/websocket_handlers.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/http/websocket_options.hpp>

#include <memory>
#include <system_error>
#include <utility>

namespace gyre::http::detail {

/// Calls the handlers that the program has set. A server's socket mostly has but one for messages.
///
/// Thread-safety: the loop's thread.
class websocket_callbacks {
 public:
  websocket_callbacks() noexcept = default;
  /// Throws std::bad_alloc.
  explicit websocket_callbacks(websocket_handlers handlers)
      : message_(std::move(handlers.message_)) {
    if (handlers.open_ || handlers.write_complete_ || handlers.close_) {
      others_ = std::make_unique<other_handlers>(std::move(handlers.open_),
                                                 std::move(handlers.write_complete_),
                                                 std::move(handlers.close_));
    }
  }

  /// Called once.
  void open(websocket_connection& socket) {
    if (others_ == nullptr || !others_->open) return;
    auto handler = std::exchange(others_->open, nullptr);
    if (!others_->write_complete && !others_->close) others_.reset();
    handler(socket);
  }
  void message(websocket_connection& socket, websocket_message message) {
    if (message_) message_(socket, message);
  }
  bool reports_writes() const noexcept { return others_ != nullptr && others_->write_complete; }
  void write_complete(websocket_connection& socket) {
    if (reports_writes()) others_->write_complete(socket);
  }
  void close(websocket_connection& socket, std::error_code reason) {
    if (others_ != nullptr && others_->close) others_->close(socket, reason);
  }

 private:
  struct other_handlers final : gyre::detail::slab_object {
    using handler = move_only_function<void(websocket_connection&)>;
    using close_handler = move_only_function<void(websocket_connection&, std::error_code)>;
    other_handlers(handler on_open, handler on_write_complete, close_handler on_close) noexcept
        : open(std::move(on_open)),
          write_complete(std::move(on_write_complete)),
          close(std::move(on_close)) {}

    handler open, write_complete;
    close_handler close;
  };

  move_only_function<void(websocket_connection&, websocket_message)> message_;
  std::unique_ptr<other_handlers> others_;
};

/// The face of a websocket_driver towards handlers.
///
/// Thread-safety: the loop's thread.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): only derived classes are deleted
class called_websocket : public websocket_driver {
 protected:
  called_websocket(websocket_callbacks callbacks, steady_time now, websocket_role role,
                   const websocket_options& options, websocket_agreement agreement)
      : websocket_driver(now, role, options, std::move(agreement), websocket_face::handlers),
        callbacks_(std::move(callbacks)) {}
  ~called_websocket() = default;

 private:
  void deliver_open() override { callbacks_.open(*this); }
  void deliver_message(websocket_message message) override { callbacks_.message(*this, message); }
  bool reports_writes() const noexcept override { return callbacks_.reports_writes(); }
  void deliver_write_complete() override { callbacks_.write_complete(*this); }
  void deliver_close(std::error_code reason) override { callbacks_.close(*this, reason); }
  void drop_program() noexcept override { callbacks_ = {}; }

  websocket_callbacks callbacks_;
};

}  // namespace gyre::http::detail
