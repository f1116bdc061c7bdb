// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/uring_requests.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include <gyre/base/error.hpp>

namespace gyre::io::detail {
namespace {

// From the lowest bit of `user_data`: a tag, the order, the handle's generation, its index.
constexpr int order_shift = 8;
constexpr int generation_shift = 16;
constexpr int index_shift = 32;
constexpr std::uint32_t generation_mask = 0xffff;

// A completion that is of no interest.
constexpr std::uint64_t ignored = 0;

std::uint32_t index_of(const io_uring_cqe& completion) noexcept {
  return static_cast<std::uint32_t>(completion.user_data >> index_shift);
}

bool goes_on(const io_uring_cqe& completion) noexcept {
  return (completion.flags & IORING_CQE_F_MORE) != 0;
}

bool has_buffer(const io_uring_cqe& completion) noexcept {
  return (completion.flags & IORING_CQE_F_BUFFER) != 0;
}

// Sockets wake those who wait for any data with POLLIN, POLLPRI and POLLRDBAND, and a completion repeats
// that. Where they were woken twice before it was made, as for urgent data, it has what the socket says:
// POLLPRI for urgent data, POLLRDBAND never.
constexpr unsigned readable_events = POLLIN | POLLRDHUP | POLLPRI | POLLRDBAND;

std::uint32_t events_of(const io_uring_cqe& completion) noexcept {
  const auto events = static_cast<std::uint32_t>(completion.res);
  return (events & POLLRDBAND) != 0 ? events & ~std::uint32_t{POLLPRI | POLLRDBAND} : events;
}

// As epoll_ctl(2) does: what is always ready cannot be waited for.
void check_descriptor(int fd) {
  struct ::stat status{};
  if (::fstat(fd, &status) != 0) gyre::detail::throw_errno("fstat");
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
    gyre::detail::throw_system_error(EPERM, "a file is always ready");
  }
}

// Whether there is still somebody there.
bool ask_for_peer(accept_request& asked, int fd) noexcept {
  asked.peer_size = sizeof asked.peer;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&asked.peer), &asked.peer_size) == 0;
}

std::size_t scatter_from(buffer_ring::queue& from, std::span<const iovec> to) noexcept {
  std::size_t done = 0;
  for (const iovec& piece : to) {
    done += from.read({static_cast<std::byte*>(piece.iov_base), piece.iov_len});
  }
  return done;
}

std::size_t message_from(buffer_ring::queue& from, msghdr& to) noexcept {
  to.msg_namelen = 0;
  to.msg_controllen = 0;
  to.msg_flags = 0;
  return scatter_from(from, {to.msg_iov, to.msg_iovlen});
}

}  // namespace

uring_requests::uring_requests(owner& of, uring& ring, const uring_features& features)
    : owner_(of), ring_(ring), features_(features) {
  // What came for a ring that is closed can be told only by kernels that also have the other (6.0).
  if (!features_.multishot_receive) features_.multishot_accept = false;
}

// ---- handles

void uring_requests::begin(handle& served) {
  const std::uint32_t index = served.index;
  if (index >= places_.size()) places_.resize(index + 1);
  changed_.reserve(index + 1);
  doubtful_.reserve(index + 1);
  check_descriptor(served.fd());
}

void uring_requests::end(handle& served) noexcept {
  place& at = places_[served.index];
  at.wanted = 0;
  // What has been accepted ends with its listener, and not only when its turn comes.
  const bool accepts = (at.given & accept_all) != 0;
  end_orders(served.index);
  changed_.erase(served.index);
  doubtful_.erase(served.index);
  at.early.clear();
  if (at.early_connections != 0) {
    std::erase_if(early_connections_,
                  [&](const early_connection& each) { return each.index == served.index; });
  }
  const std::uint32_t generation = (at.generation + 1) & generation_mask;
  // From now on completions are known by their generation as those of a closed handle; when that
  // begins anew, there must be none left of the handle that had it before.
  if (accepts || generation == 0) drop_completions(served.index);
  at = place();
  at.generation = generation;
  drop_stale();
}

// The kernel holds the file of each order, so that closing the descriptor would end nothing.
void uring_requests::end_orders(std::uint32_t index) noexcept {
  constexpr int most_attempts = 1000;
  place& at = places_[index];
  if (at.given != 0) note_ends();
  for (int round = 0; has_unended(at); ++round) {
    if (!ring_.usable_here() || round == most_attempts) return owner_.abandon_ring();
    take_back_orders(index);
    ring_.enter();
    note_ends();
    if (has_unended(at) && ring_.full() && !ring_.set_aside()) return owner_.abandon_ring();
  }
}

// Notes of all handles which of their orders have ended. Looks at each completion once, however many
// handles are closed before it is served.
void uring_requests::note_ends() noexcept {
  const std::uint64_t oldest = ring_.taken();
  const std::uint64_t end = oldest + ring_.ready();
  looked_until_ = std::max(looked_until_, oldest);
  looked_at_ += end - looked_until_;
  for (; looked_until_ != end; ++looked_until_) {
    const io_uring_cqe& completion = ring_.at(static_cast<unsigned>(looked_until_ - oldest));
    if (tag_of(completion) != completion_tag || goes_on(completion)) continue;
    if (target_of(completion) != nullptr)
      places_[index_of(completion)].ended |= order_of(completion);
  }
}

// Looks at all completions: for what is rarely closed.
void uring_requests::drop_completions(std::uint32_t index) noexcept {
  looked_at_ += ring_.ready();
  for (unsigned each = 0; each < ring_.ready(); ++each) {
    io_uring_cqe& completion = ring_.at(each);
    if (tag_of(completion) != completion_tag || index_of(completion) != index) continue;
    drop(completion);
    completion.user_data = ignored;
  }
}

// What closed handles have left in front, so that where many are closed there is room for the others.
void uring_requests::drop_stale() noexcept {
  while (ring_.ready() > 0) {
    const io_uring_cqe& oldest = ring_.at(0);
    const bool own = tag_of(oldest) == completion_tag;
    if (own ? target_of(oldest) != nullptr : oldest.user_data != ignored) return;
    const io_uring_cqe stale = ring_.take();
    if (own) drop(stale);
  }
}

// ---- what is wanted of the kernel

void uring_requests::wait_for_readiness(handle& of, bool writing) noexcept {
  const std::uint32_t index = of.index;
  place& at = places_[index];
  if (writing) return want(at, index, tell_writable);
  const request& asked = *of.reader;
  if (can_accept_all(asked)) return want(at, index, accept_all);
  if (receives_all(asked, at)) {
    want_no_more(at, index, tell_readable);
    return want(at, index, receive_all);
  }
  // What is received in between comes first; the end of that is told, too.
  if ((at.given & (receive_all | accept_all)) != 0) {
    want_no_more(at, index, receive_all);
    return want_no_more(at, index, accept_all);
  }
  want(at, index, tell_readable);
  if (of.state & read_short) doubtful_.insert(index);
}

bool uring_requests::can_receive_all(const request& asked) const noexcept {
  return has_buffers_ && asked.kind() == request_kind::receive && asked.repeats() &&
         asked.target().kind() == handle_kind::stream_socket;
}

bool uring_requests::can_accept_all(const request& asked) const noexcept {
  return features_.multishot_accept && asked.kind() == request_kind::accept && asked.repeats() &&
         static_cast<const accept_request&>(asked).ahead();
}

bool uring_requests::receives_all(const request& asked, place& at) noexcept {
  if (!can_receive_all(asked)) return false;
  if (const std::size_t bytes = last_receive(); at.prefers_calls && bytes > 0) {
    at.small_messages = bytes <= small_message ? at.small_messages + 1 : 0;
    if (at.small_messages == many_small) at.prefers_calls = false;
  }
  // The kernel takes a buffer before it looks for bytes: without one it would refuse at once, for ever.
  return !at.prefers_calls && !buffers_.exhausted();
}

void uring_requests::want(place& at, std::uint32_t index, order what) noexcept {
  at.wanted |= what;
  if ((at.given & what) == 0) changed_.insert(index);
}

void uring_requests::want_no_more(place& at, std::uint32_t index, order what) noexcept {
  at.wanted &= static_cast<std::uint8_t>(~what);
  if ((at.given & what) != 0) changed_.insert(index);
}

bool uring_requests::flush() noexcept {
  while (!changed_.empty()) {
    const std::uint32_t index = changed_.any();
    place& at = places_[index];
    for (const order each : all_orders) {
      if ((at.wanted & each) != 0 && !still_wanted(index, each)) {
        at.wanted &= static_cast<std::uint8_t>(~each);
      }
      const bool wanted = (at.wanted & each) != 0;
      const bool given = (at.given & each) != 0;
      if (wanted && !given && !give(index, each)) return false;
      if (!wanted && given && (at.cancelled & each) == 0 && !take_back(index, each)) return false;
    }
    changed_.erase(index);
  }
  return true;
}

// A read stops at urgent data, and nothing is told of what is behind it. That there is some shows in most
// completions, but not in all (see events_of()). To look for it after each short read would be a call in
// vain for each message; so this is for when nothing comes for a while.
void uring_requests::doubt_short_reads() noexcept {
  while (!doubtful_.empty()) {
    const std::uint32_t index = doubtful_.any();
    doubtful_.erase(index);
    handle& each = *all()[index];
    each.state &= static_cast<std::uint8_t>(~read_short);
    const int at_urgent_data = ::sockatmark(each.fd());  // negative where there is no telling
    if (at_urgent_data == 0) continue;
    each.state |= at_urgent_data > 0 ? may_read | short_reads_lie : may_read;
    if (each.reading()) serve_later(each);
  }
}

// Whoever asked may be gone meanwhile.
bool uring_requests::still_wanted(std::uint32_t index, order what) const noexcept {
  const handle& of = *all()[index];
  const request* const asked = of.reader;
  switch (what) {
    case tell_readable: return asked != nullptr;
    case tell_writable: return of.writer != nullptr;
    case receive_all: return asked != nullptr && can_receive_all(*asked);
    case accept_all: return asked != nullptr && can_accept_all(*asked);
  }
  return false;
}

bool uring_requests::give(std::uint32_t index, order what) noexcept {
  io_uring_sqe* const next = ring_.next_submission();
  if (next == nullptr) return false;
  handle& of = *all()[index];
  switch (what) {
    case tell_readable: io_uring_prep_poll_multishot(next, of.fd(), readable_events); break;
    // Once would not do: where the peer has ended its direction, that is told, again and again.
    case tell_writable: io_uring_prep_poll_multishot(next, of.fd(), POLLOUT); break;
    case receive_all:
      io_uring_prep_recv_multishot(next, of.fd(), nullptr, 0, 0);
      next->flags |= IOSQE_BUFFER_SELECT;
      next->buf_group = buffer_ring::group;
      break;
    case accept_all:
      io_uring_prep_multishot_accept(next, of.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      break;
  }
  next->user_data = name_of(index, what);
  places_[index].given |= what;
  update_state(of, places_[index]);
  return true;
}

bool uring_requests::take_back(std::uint32_t index, order what) noexcept {
  io_uring_sqe* const next = ring_.next_submission();
  if (next == nullptr) return false;
  io_uring_prep_cancel64(next, name_of(index, what), 0);
  next->user_data = ignored;
  places_[index].cancelled |= what;
  return true;
}

bool uring_requests::take_back_orders(std::uint32_t index) noexcept {
  const place& at = places_[index];
  for (const order each : all_orders) {
    if ((at.given & each) == 0 || ((at.cancelled | at.ended) & each) != 0) continue;
    if (!take_back(index, each)) return false;
  }
  return true;
}

std::uint64_t uring_requests::name_of(std::uint32_t index, order what) const noexcept {
  return completion_tag | std::uint64_t{what} << order_shift |
         std::uint64_t{places_[index].generation} << generation_shift |
         std::uint64_t{index} << index_shift;
}

// ---- what the kernel answers

handle* uring_requests::target_of(const io_uring_cqe& completion) const noexcept {
  const std::uint32_t index = index_of(completion);
  const std::uint64_t generation = completion.user_data >> generation_shift & generation_mask;
  return places_[index].generation == generation ? all()[index] : nullptr;
}

uring_requests::order uring_requests::order_of(const io_uring_cqe& completion) noexcept {
  return static_cast<order>(completion.user_data >> order_shift & 0xff);
}

void uring_requests::begin_with_ring() noexcept {
  has_buffers_ = features_.multishot_receive && buffers_.provide_to(ring_.raw()) == 0;
}

bool uring_requests::take_back_all() noexcept {
  bool any = false;
  for (const handle* each : all()) {
    if (each == nullptr || places_[each->index].given == 0) continue;
    any = true;
    if (!take_back_orders(each->index)) break;
  }
  return any;
}

void uring_requests::begin_anew() noexcept {
  looked_until_ = ring_.taken();
  while (!changed_.empty()) changed_.erase(changed_.any());
  for (handle* each : all()) {
    if (each == nullptr) continue;
    place& at = places_[each->index];
    at.wanted = at.given = at.cancelled = at.ended = 0;
    each->state |= may_read | may_write;
    update_state(*each, at);
    if (each->reading() || each->writing()) serve_later(*each);
  }
}

void uring_requests::forget_what_came() noexcept {
  for (place& each : places_) {
    each.early.clear();
    each.error = 0;
    each.early_connections = 0;
  }
  early_connections_.clear();
}

void uring_requests::save(const io_uring_cqe& completion) noexcept {
  if (handle* const target = target_of(completion)) {
    note(completion, *target);
  } else {
    drop(completion);
  }
}

void uring_requests::serve_completion(const io_uring_cqe& completion, std::size_t& completed) {
  handle* const target = target_of(completion);
  if (target == nullptr) return drop(completion);
  if (hand_over_bytes(completion, *target, completed)) return;
  if (hand_over_connection(completion, *target, completed)) return;
  note(completion, *target);
  if (is_refusal(completion)) {
    // To ask again would be in vain, or at once.
    request* const asked = order_of(completion) == tell_writable ? target->writer : target->reader;
    if (asked != nullptr) hand_over(*asked, result::failure(-completion.res), completed);
    return;
  }
  serve(*target, 0, completed);
}

// The kernel cannot watch a descriptor, for want of memory or because of what it is.
bool uring_requests::is_refusal(const io_uring_cqe& completion) noexcept {
  const order what = order_of(completion);
  return (what == tell_readable || what == tell_writable) && completion.res < 0 &&
         completion.res != -ECANCELED;
}

// The way of most messages.
bool uring_requests::hand_over_bytes(const io_uring_cqe& completion, handle& target,
                                     std::size_t& completed) {
  place& at = places_[target.index];
  request* const asked = target.reader;
  if (order_of(completion) != receive_all || completion.res <= 0 || !at.early.empty()) return false;
  if (asked == nullptr || !can_receive_all(*asked)) return false;
  const auto count = static_cast<std::size_t>(completion.res);
  note_end(completion, at);
  if (count >= large_message) {
    at.prefers_calls = true;
    at.small_messages = 0;
    want_no_more(at, target.index, receive_all);
  }
  update_state(target, at);
  if (!goes_on(completion)) wait_for_readiness(target, false);
  static_cast<receive_request&>(*asked).data =
      buffers_.lend(buffer_ring::named_by(completion), count);
  hand_over(*asked, result::of(count), completed);
  return true;
}

bool uring_requests::hand_over_connection(const io_uring_cqe& completion, handle& target,
                                          std::size_t& completed) {
  place& at = places_[target.index];
  request* const asked = target.reader;
  if (order_of(completion) != accept_all || completion.res < 0) return false;
  if (asked == nullptr || !can_accept_all(*asked) || at.has_early()) return false;
  note_end(completion, at);
  update_state(target, at);
  if (!goes_on(completion)) wait_for_readiness(target, false);
  unique_fd accepted(completion.res);
  if (ask_for_peer(static_cast<accept_request&>(*asked), accepted.get())) {
    hand_over(*asked, result::of(static_cast<std::size_t>(accepted.release())), completed);
  }
  return true;
}

void uring_requests::note(const io_uring_cqe& completion, handle& target) noexcept {
  place& at = places_[target.index];
  note_end(completion, at);
  switch (order_of(completion)) {
    case tell_readable:
    case tell_writable:
      doubtful_.erase(target.index);
      if (completion.res >= 0) note_events(target, events_of(completion));
      if (target.writer == nullptr) want_no_more(at, target.index, tell_writable);
      break;
    case receive_all: note_received(completion, target.index, at); break;
    case accept_all: note_accepted(completion, target.index, at); break;
  }
  update_state(target, at);
}

void uring_requests::note_end(const io_uring_cqe& completion, place& at) noexcept {
  if (goes_on(completion)) return;
  const auto ended = static_cast<std::uint8_t>(~order_of(completion));
  at.given &= ended;
  at.cancelled &= ended;
  at.ended &= ended;
  at.wanted &= ended;
}

void uring_requests::note_received(const io_uring_cqe& completion, std::uint32_t index,
                                   place& at) noexcept {
  if (completion.res > 0) {
    at.early.push(buffers_, buffer_ring::named_by(completion),
                  static_cast<std::size_t>(completion.res));
    return want_no_more(at, index, receive_all);
  }
  if (has_buffer(completion)) buffers_.recycle(buffer_ring::named_by(completion));
  switch (-completion.res) {
    case 0:
    case ECANCELED:
    case ENOBUFS:
    case ENOMEM:
    case EAGAIN:
    case EINTR: break;  // a call tells it again, or what there is now
    case EINVAL:
    case EOPNOTSUPP:
      at.prefers_calls = true;
      at.small_messages = 0;
      break;
    default: at.error = -completion.res;
  }
}

void uring_requests::note_accepted(const io_uring_cqe& completion, std::uint32_t index,
                                   place& at) noexcept {
  if (completion.res < 0) return;  // a call tells it again
  unique_fd accepted(completion.res);
  try {
    early_connections_.push_back({index, std::move(accepted)});
    ++at.early_connections;
  } catch (...) {
    accepted.reset();  // without memory it is refused
  }
  want_no_more(at, index, accept_all);
}

void uring_requests::drop(const io_uring_cqe& completion) noexcept {
  if (has_buffer(completion)) buffers_.recycle(buffer_ring::named_by(completion));
  if (order_of(completion) == accept_all && completion.res >= 0) unique_fd{completion.res};
}

// ---- what came before it was asked for

// While the kernel receives, a call would overtake it.
void uring_requests::update_state(handle& of, const place& at) noexcept {
  const bool early = at.has_early();
  const bool receiving = (at.given & (receive_all | accept_all)) != 0;
  if (early || receiving) {
    of.state |= diverted;
    if (!early) of.state &= static_cast<std::uint8_t>(~may_read);
  } else {
    if (of.state & diverted) of.state |= may_read;
    of.state &= static_cast<std::uint8_t>(~diverted);
  }
  if (early) of.state |= may_read;
}

result uring_requests::read_diverted(request& asked) noexcept {
  handle& from = asked.target();
  place& at = places_[from.index];
  result made = result::failure(EAGAIN);
  bool done = false;
  switch (asked.kind()) {
    case request_kind::wait_readable:
      done = at.has_early();
      if (done) made = result::of(0);
      break;
    case request_kind::accept:
      done = next_connection(static_cast<accept_request&>(asked), made);
      break;
    default: done = next_bytes(asked, at, made);
  }
  if (!done && at.error != 0) made = result::failure(std::exchange(at.error, 0));
  update_state(from, at);
  // Not diverted any more, and not tried yet.
  if (made.would_block() && (from.state & may_read) != 0) serve_later(from);
  return made;
}

bool uring_requests::next_connection(accept_request& asked, result& made) noexcept {
  for (auto each = early_connections_.begin(); each != early_connections_.end();) {
    if (each->index != asked.target().index) {
      ++each;
      continue;
    }
    unique_fd fd = std::move(each->fd);
    each = early_connections_.erase(each);
    --places_[asked.target().index].early_connections;
    if (!ask_for_peer(asked, fd.get())) continue;
    made = result::of(static_cast<std::size_t>(fd.release()));
    return true;
  }
  return false;
}

bool uring_requests::next_bytes(request& asked, place& at, result& made) noexcept {
  if (at.early.empty()) return false;
  std::size_t count = 0;
  switch (asked.kind()) {
    case request_kind::receive: {
      auto& receiving = static_cast<receive_request&>(asked);
      receiving.data = at.early.pop();
      count = receiving.data.size();
      break;
    }
    case request_kind::read: {
      auto& reading = static_cast<read_request&>(asked);
      const std::size_t more = at.early.read(reading.rest);
      reading.rest = reading.rest.subspan(more);
      count = reading.done += more;
      if (reading.whole() && !reading.rest.empty()) return false;
      break;
    }
    case request_kind::scatter:
      count = scatter_from(at.early, static_cast<scatter_request&>(asked).pieces);
      break;
    case request_kind::receive_message:
      count = message_from(at.early, *static_cast<receive_message_request&>(asked).message);
      break;
    case request_kind::receive_messages: {
      mmsghdr& first = static_cast<receive_messages_request&>(asked).messages.front();
      first.msg_len = static_cast<unsigned>(message_from(at.early, first.msg_hdr));
      count = 1;
      break;
    }
    default: break;  // do not read bytes
  }
  made = result::of(count);
  return true;
}

}  // namespace gyre::io::detail
