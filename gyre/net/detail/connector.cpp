// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connector.hpp>

#include <gyre/net/detail/connect_attempt.hpp>

#include <cerrno>
#include <new>
#include <utility>

namespace gyre::net::detail {

connector::attempt::attempt(connector& by)
    : deadline(by.loop_, [&by] {
        by.finish(by.attempt_->early_result.value_or(io::result::failure(ETIMEDOUT)));
      }) {}

void connector::begin(const endpoint& to, const endpoint& local, std::chrono::nanoseconds timeout) {
  attempt_.emplace(*this);
  attempt_->early_result = start(to, local);
  attempt_->deadline.start_after(attempt_->early_result ? std::chrono::nanoseconds::zero()
                                                        : timeout);
}

// The result, if that is certain already.
std::optional<io::result> connector::start(const endpoint& to, const endpoint& local) {
  try {
    attempt_->descriptor.emplace(loop_, open_to_connect(to, local).release(),
                                 io::handle_kind::stream_socket);
    attempt_->request.emplace(attempt_->descriptor->handle(), to, *this);
    return attempt_->descriptor->start(*attempt_->request);
  } catch (const std::system_error& error) {
    return io::result::failure(error.code().value());
  } catch (const std::bad_alloc&) {
    return io::result::failure(ENOMEM);
  }
}

void connector::on_connected(io::request& request, io::result result) {
  static_cast<connect_request&>(request).self->finish(result);
}

void connector::finish(io::result result) {
  unique_fd connected;
  if (result) connected = attempt_->descriptor->release();
  attempt_.reset();
  const std::error_code error =
      result ? check_connected(socket_ref(connected.get())) : result.error();
  if (!error) return owner_.connected(std::move(connected));
  connected.reset();
  owner_.connect_failed(error);
}

}  // namespace gyre::net::detail
