// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/stream_operations.hpp>

#include <pthread.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>
#include <stdexcept>

namespace gyre::io::detail {
namespace {

/// While it lives, a write without a reader raises no SIGPIPE on this thread; sendfile(2) cannot be
/// told otherwise.
class without_sigpipe {
 public:
  without_sigpipe() noexcept {
    ::sigemptyset(&sigpipe_);
    ::sigaddset(&sigpipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  without_sigpipe(const without_sigpipe&) = delete;
  without_sigpipe& operator=(const without_sigpipe&) = delete;
  ~without_sigpipe() {
    if (::sigismember(&before_, SIGPIPE) == 0) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  /// After a call that may have raised it.
  void take_back() const noexcept {
    const ::timespec at_once{};
    if (::sigismember(&before_, SIGPIPE) == 0) ::sigtimedwait(&sigpipe_, nullptr, &at_once);
  }

 private:
  ::sigset_t sigpipe_;
  ::sigset_t before_;
};

}  // namespace

result send_file_part(int to, int file, ::off_t& offset, std::size_t count) noexcept {
  const without_sigpipe quietly;
  for (;;) {
    const result made = result::of_call(::sendfile(to, file, &offset, count));
    if (made.error_number() == EINTR) continue;
    // Also raised when the connection broke within the call, which then tells of what was sent before.
    if (!made || made.count() < count) quietly.take_back();
    return made;
  }
}

std::optional<result> reading_until::receive_until_found() noexcept {
  for (;;) {
    if (const std::optional<io::result> found = search()) return found;
    const std::optional<io::result> made = single_request::begin();
    if (!made) return std::nullopt;
    if (const std::optional<io::result> ended = take(*made)) return ended;
  }
}

std::optional<result> reading_until::go_on(io::result made) noexcept {
  if (const std::optional<io::result> ended = take(made)) return ended;
  return receive_until_found();
}

std::optional<result> reading_until::search() noexcept {
  // The delimiter's beginning may have been there before.
  const std::size_t overlap = delimiter_.empty() ? 0 : delimiter_.size() - 1;
  const std::size_t from = searched_ > overlap ? searched_ - overlap : 0;
  const std::size_t found = to_->find(delimiter_, from);
  searched_ = to_->size();
  const bool within = found != input::npos && found + delimiter_.size() <= limit_;
  if (within) return io::result::of(found + delimiter_.size());
  if (found == input::npos && searched_ < limit_) return std::nullopt;
  failure_ = errc::limit_exceeded;
  return io::result::of(0);
}

std::optional<result> reading_until::take(io::result made) noexcept {
  if (!made) return made;
  if (made.count() == 0) {
    failure_ = errc::unexpected_end;
    return made;
  }
  try {
    to_->append(data.bytes());
  } catch (const std::length_error&) {
    failure_ = errc::limit_exceeded;
  } catch (const std::bad_alloc&) {
    failure_ = std::make_error_code(std::errc::not_enough_memory);
  }
  data.reset();
  if (failure_) return made;
  return std::nullopt;
}

std::optional<result> writing_received::go_on_with_copy() noexcept {
  if (const std::optional<io::result> made = give_up()) return made;
  copy_.reset(new (std::nothrow) std::byte[rest.size()]);
  if (copy_ == nullptr) return io::result::failure(ENOMEM);
  std::memcpy(copy_.get(), rest.data(), rest.size());
  rest = {copy_.get(), rest.size()};
  return single_request::begin();
}

std::optional<result> gathering::write_rest() noexcept {
  for (;;) {
    // Of nothing nothing can be written, and the kernel refuses more than IOV_MAX.
    while (!rest_.empty() && first_.iov_base == nullptr && rest_.front().iov_len == 0) {
      rest_ = rest_.subspan(1);
    }
    if (rest_.empty()) return io::result::of(done_);
    pieces = first_.iov_base != nullptr ? std::span<const iovec>(&first_, 1)
                                        : rest_.first(std::min<std::size_t>(rest_.size(), IOV_MAX));
    const std::optional<io::result> made = single_request::begin();
    if (!made) return std::nullopt;
    if (!*made) return made;
    if (take(made->count())) return io::result::of(done_);
  }
}

std::optional<result> gathering::go_on(io::result made) noexcept {
  if (!made) return made;
  if (take(made.count())) return io::result::of(done_);
  return write_rest();
}

bool gathering::take(std::size_t count) noexcept {
  done_ += count;
  while (!rest_.empty()) {
    const iovec piece = first_.iov_base != nullptr ? first_ : rest_.front();
    if (count < piece.iov_len) {
      if (count > 0) {
        first_ = {static_cast<std::byte*>(piece.iov_base) + count, piece.iov_len - count};
      }
      break;
    }
    count -= piece.iov_len;
    first_ = {};
    rest_ = rest_.subspan(1);
  }
  return !whole_ || rest_.empty();
}

std::optional<result> sending_file::send_rest() noexcept {
  while (left_ > 0) {
    const io::result sent =
        send_file_part(on()->fd(), file_, offset_, std::min(left_, most_at_once));
    if (!sent && !sent.would_block()) return sent;
    if (sent) {
      if (sent.count() == 0) break;  // the file ends here
      left_ -= sent.count();
      done_ += sent.count();
      on()->io().charge(sent.count());
      if (left_ == 0) break;
    }
    const std::optional<io::result> made = single_request::begin();
    if (!made) return std::nullopt;
    if (!*made) return made;
  }
  return io::result::of(done_);
}

std::optional<result> sending_file::go_on(io::result made) noexcept {
  if (!made) return made;
  return send_rest();
}

}  // namespace gyre::io::detail
