// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/layer_opening.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/tcp_stream.hpp>

#include <coroutine>
#include <exception>
#include <new>
#include <utility>

namespace gyre::net::detail {
namespace {

std::error_code code_of(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    return failure.code();
  } catch (...) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
}

}  // namespace

layer_opening::layer_opening(connection_group& group, unique_fd connection,
                             std::unique_ptr<layer> protocol, function done)
    : group_(group),
      core_(std::make_shared<layered_core>(tcp_stream(group.loop(), std::move(connection)),
                                           std::move(protocol))),
      work_(shake_hands(core_, this)),
      done_(std::move(done)),
      result_(core_->protocol->timeout_error()),
      end_timer_(group.loop(), [this] { end(); }) {
  where = &group.loop();
  finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
    static_cast<layer_opening&>(self).note_end();
    return std::noop_coroutine();
  };
}

layer_opening::~layer_opening() { static_cast<void>(count_held(0)); }

void layer_opening::start() {
  const duration limit = core_->protocol->handshake_timeout();
  if (limit.count() > 0) end_timer_.start_after(limit);
  gyre::detail::task_access::state(work_).start(*this);
}

std::error_code layer_opening::note_step(const layer& protocol) noexcept {
  return count_held(protocol.held_by_handshake()) ? std::error_code() : io::errc::memory_limit;
}

void layer_opening::note_end() noexcept {
  const std::exception_ptr error = gyre::detail::task_access::state(work_).take_error();
  result_ = error ? code_of(error) : std::error_code();
  end_timer_.start_after(duration::zero());
}

// False if the memory limit has no room for that.
bool layer_opening::count_held(std::size_t held) noexcept {
  return group_.count_held_by_handshake(std::exchange(counted_, held), held);
}

void layer_opening::end() {
  work_ = {};
  function done = std::move(done_);
  done(result_);
}

}  // namespace gyre::net::detail
