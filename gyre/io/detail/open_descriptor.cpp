// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/open_descriptor.hpp>

#include <array>
#include <new>
#include <span>

namespace gyre::io::detail {
namespace {

// Returns the reader and the writer of a handle, which are no longer known once the handle is
// detached.
std::array<request*, 2> requests_under_way(const handle& target) noexcept {
  return {target.reader, target.writer};
}

void cancel_all(std::span<request* const> requests) {
  for (request* const request : requests) {
    if (request != nullptr) request->complete(result::failure(errc::closed));
  }
}

}  // namespace

void open_descriptor::close() noexcept {
  const auto requests = requests_under_way(handle());
  descriptor::close();
  cancel_all(requests);
}

unique_fd open_descriptor::release() noexcept {
  const auto requests = requests_under_way(handle());
  unique_fd fd_owner = descriptor::release();
  cancel_all(requests);
  return fd_owner;
}

handle& target_of(open_descriptor* descriptor) noexcept {
  static io::handle closed_handle;
  return descriptor != nullptr ? descriptor->handle() : closed_handle;
}

open_descriptor& opened(const owned_descriptor& descriptor, const char* operation) {
  if (descriptor == nullptr || !descriptor->is_open()) {
    throw std::system_error(make_error_code(errc::not_open), operation);
  }
  return *descriptor;
}

std::error_code current_error() noexcept {
  try {
    throw;
  } catch (const std::system_error& error) {
    return error.code();
  } catch (const std::bad_alloc&) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
}

bool may_use(const event_loop& loop, const executor& executor) noexcept {
  if (loop.in_loop_thread()) return true;
  // Code outside any loop, such as main() before run(), has the inline executor.
  return &executor == &inline_executor() && event_loop::current() == nullptr;
}

}  // namespace gyre::io::detail
