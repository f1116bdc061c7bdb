// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/open_descriptor.hpp>

#include <gyre/base/error.hpp>

#include <cerrno>
#include <utility>

namespace gyre::io::detail {

/// The requests of a handle that is about to be detached, which forgets them.
class open_descriptor::requests_under_way {
 public:
  explicit requests_under_way(const io::handle& target) noexcept
      : reader_(target.reader), writer_(target.writer) {}
  void cancel() {
    if (reader_ != nullptr) reader_->complete(io::result::failure(ECANCELED));
    if (writer_ != nullptr) writer_->complete(io::result::failure(ECANCELED));
  }

 private:
  request* reader_;
  request* writer_;
};

void open_descriptor::close() noexcept {
  requests_under_way requests(handle());
  descriptor::close();
  requests.cancel();
}

unique_fd open_descriptor::release() noexcept {
  requests_under_way requests(handle());
  unique_fd released = descriptor::release();
  requests.cancel();
  return released;
}

handle& target_of(open_descriptor* descriptor) noexcept {
  static io::handle none;
  return descriptor != nullptr ? descriptor->handle() : none;
}

open_descriptor& opened(const owned_descriptor& descriptor, const char* operation) {
  if (descriptor == nullptr || !descriptor->is_open()) {
    gyre::detail::throw_system_error(EBADF, operation);
  }
  return *descriptor;
}

}  // namespace gyre::io::detail
