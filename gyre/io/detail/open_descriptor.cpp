// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/open_descriptor.hpp>

#include <gyre/base/error.hpp>

#include <cerrno>
#include <utility>

namespace gyre::io::detail {

/// The requests of a descriptor that is about to be detached, which forgets them.
class open_descriptor::requests_under_way {
 public:
  explicit requests_under_way(const io::handle& of) noexcept
      : reader_(of.reader), writer_(of.writer) {}
  void cancel() {
    if (reader_ != nullptr) reader_->complete(io::result::failure(ECANCELED));
    if (writer_ != nullptr) writer_->complete(io::result::failure(ECANCELED));
  }

 private:
  request* reader_;
  request* writer_;
};

void open_descriptor::close() noexcept {
  requests_under_way left(handle());
  descriptor::close();
  left.cancel();
}

unique_fd open_descriptor::release() noexcept {
  requests_under_way left(handle());
  unique_fd released = descriptor::release();
  left.cancel();
  return released;
}

handle& target_of(open_descriptor* on) noexcept {
  static io::handle none;
  return on != nullptr ? on->handle() : none;
}

open_descriptor& opened(const owned_descriptor& on, const char* what) {
  if (on == nullptr || !on->is_open()) gyre::detail::throw_system_error(EBADF, what);
  return *on;
}

}  // namespace gyre::io::detail
