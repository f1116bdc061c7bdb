// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_output.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/detail/scratch_buffer.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/from_loop.hpp>
#include <gyre/net/detail/layer_limits.hpp>
#include <gyre/net/detail/message_with_fds.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace gyre::net::detail {
namespace {

using io::detail::scratch_buffer;

// Throws std::system_error if a descriptor is closed. That is an error of the program, and is
// reported in any phase, even if the descriptors would have to wait.
void check_descriptors(std::span<const int> fds) {
  for (const int fd : fds) {
    io::detail::system::value_or_throw(io::detail::system::flags_of(fd),
                                       "tcp_connection::send_fds");
  }
}

// Duplicates descriptors; returns fewer than `fds` if the process has no descriptors left. Throws
// std::bad_alloc.
std::vector<unique_fd> copies_of(std::span<const int> fds) {
  std::vector<unique_fd> copies;
  copies.reserve(fds.size());
  for (const int fd : fds) {
    auto copy = io::detail::system::duplicate(fd);
    if (!copy) break;
    copies.push_back(*std::move(copy));
  }
  return copies;
}

}  // namespace

std::size_t connection_output::pending_output() const noexcept {
  const connection_io& self = whole_of(*this);
  const connection_backlog* const backlog = backlog_of(self);
  if (backlog == nullptr) return 0;
  return backlog->output.size() +
         (backlog->attachments == nullptr ? 0 : backlog->attachments->cost()) +
         (self.has_layer() ? layer_of(self).pending() : 0);
}

// --- Accepting output ---

// Tries `request` at once, because the program decides how much it sends in one turn. Returns how
// many bytes the kernel took. After a failure the connection accepts no more output.
std::size_t connection_output::send_now(io::request& request) noexcept {
  const io::result result = whole_of(*this).group().io().attempt(request);
  if (result.would_block()) return 0;
  if (!result) {
    whole_of(*this).on_sending_failed(result.error());
    return 0;
  }
  count_sent(result.count());
  return result.count();
}

void connection_output::count_sent(std::size_t bytes) noexcept {
  whole_of(*this).count_sent(bytes);
  whole_of(*this).group().count_sent(bytes);
}

bool connection_output::note_all_sent() noexcept {
  if (whole_of(*this).group().handlers().write_complete)
    whole_of(*this).schedule(due_call::write_complete);
  return true;
}

bool connection_output::send(std::span<const std::byte> bytes) {
  connection_io& self = whole_of(*this);
  if (!self.can_send()) return false;
  if (bytes.empty()) return true;
  if (self.has_layer()) return send_layered({&bytes, 1});
  if (pending_output() == 0) [[likely]] {
    io::write_request request(self, bytes, nullptr);
    const std::size_t sent_bytes = send_now(request);
    if (sent_bytes == bytes.size()) [[likely]]
      return note_all_sent();
    if (!self.can_send()) return false;
    bytes = bytes.subspan(sent_bytes);
  }
  return queue(bytes.size(), [bytes](io::output_queue& output) { output.append(bytes); });
}

bool connection_output::send(io::buffer&& bytes) {
  connection_io& self = whole_of(*this);
  if (!self.can_send()) return false;
  if (bytes.empty()) return true;
  if (self.has_layer()) return send(std::exchange(bytes, io::buffer()).bytes());
  if (pending_output() == 0) {
    io::write_request request(self, bytes.bytes(), nullptr);
    bytes.consume(send_now(request));
    if (bytes.empty()) {
      bytes.clear();
      return note_all_sent();
    }
    if (!self.can_send()) return false;
  }
  return queue(bytes.size(),
               [&bytes](io::output_queue& output) { output.append(std::move(bytes)); });
}

bool connection_output::send(std::span<const std::span<const std::byte>> pieces) {
  connection_io& self = whole_of(*this);
  if (!self.can_send()) return false;
  std::size_t rest = 0;
  for (const auto piece : pieces) rest += piece.size();
  if (rest == 0) return true;
  if (self.has_layer()) return send_layered(pieces);
  std::size_t sent_bytes = 0;
  if (pending_output() == 0) {
    std::array<iovec, 64> vectors;
    const std::size_t count = std::min(pieces.size(), vectors.size());
    for (std::size_t i = 0; i < count; ++i) {
      // iovec has no const, but the kernel only reads these bytes.
      vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
    }
    io::gather_request request(self, std::span(vectors).first(count), nullptr);
    sent_bytes = send_now(request);
    if (!self.can_send()) return false;
    rest -= sent_bytes;
    if (rest == 0) return note_all_sent();
  }
  return queue(rest, [pieces, sent_bytes](io::output_queue& output) mutable {
    for (const auto piece : pieces) {
      const std::size_t offset = std::min(sent_bytes, piece.size());
      sent_bytes -= offset;
      if (offset < piece.size()) output.append(piece.subspan(offset));
    }
  });
}

bool connection_output::send_file(unique_fd file, std::uint64_t offset, std::uint64_t count) {
  if (!whole_of(*this).can_send()) return false;
  if (count == 0) return true;
  return queue(descriptor_cost_of(1), [&](io::output_queue& output) {
    attached().add(
        {.file = std::move(file), .offset = static_cast<::off_t>(offset), .unsent_bytes = count},
        output.size());
  });
}

bool connection_output::send_fds(std::span<const std::byte> bytes, std::span<const int> fds) {
  connection_io& self = whole_of(*this);
  if (bytes.empty() || fds.size() > message_with_fds::max_fds || self.is_tcp() ||
      self.has_layer()) {
    gyre::detail::throw_system_error(EINVAL, "tcp_connection::send_fds");
  }
  check_descriptors(fds);
  if (!self.can_send()) return false;
  if (pending_output() == 0) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    message_with_fds message({&piece, 1});
    message.attach(fds);
    io::send_message_request request(self, message.header, nullptr);
    const std::size_t sent_bytes = send_now(request);
    if (sent_bytes == bytes.size()) return note_all_sent();
    if (!self.can_send()) return false;
    bytes = bytes.subspan(sent_bytes);
    if (sent_bytes > 0) fds = {};
  }
  std::vector<unique_fd> copies = copies_of(fds);
  if (copies.size() < fds.size()) return refuse({errno, std::system_category()});
  const std::size_t cost = descriptor_cost_of(copies.size());
  return queue(bytes.size() + cost, [&](io::output_queue& output) {
    if (!copies.empty()) attached().add({.fds = std::move(copies)}, output.size());
    output.append(bytes);
  });
}

attached_output& connection_output::attached() {
  auto& attachments = whole_of(*this).make_backlog().attachments;
  if (attachments == nullptr) {
    io::handle& socket = whole_of(*this);
    attachments =
        std::make_unique<attached_output>(socket, &on_done<&connection_output::on_written>,
                                          &on_done<&connection_output::on_file_part>);
  }
  return *attachments;
}

// Returns the bytes of quota for descriptors: 0 while no output is pending, because a small limit
// would otherwise refuse every descriptor even if the kernel has room for it.
std::size_t connection_output::descriptor_cost_of(std::size_t count) const noexcept {
  return pending_output() == 0 ? 0 : count * attached_output::descriptor_cost;
}

bool connection_output::refuse(std::error_code reason) noexcept {
  whole_of(*this).abort(reason);
  return false;
}

// Queues `size` bytes, which `append` adds. If they exceed a limit or memory is short, the
// connection ends, because the stream of bytes must have no gap.
template <class Append>
bool connection_output::queue(std::size_t size, Append&& append) noexcept {
  connection_io& self = whole_of(*this);
  const connection_options& limits = self.group().options();
  if (size > limits.output_limit || pending_output() > limits.output_limit - size) {
    return refuse(io::errc::output_limit);
  }
  try {
    append(self.make_backlog().output);
  } catch (const std::bad_alloc&) {
    return refuse(no_memory());
  }
  if (!self.writing()) flush();
  if (!self.can_send()) return false;
  if (!self.update_held_bytes()) return refuse(io::errc::memory_limit);
  watch();
  if (!is_above_high_water_ && pending_output() >= limits.high_water) {
    is_above_high_water_ = true;
    if (self.group().pauses_at_high_water()) self.pause(connection_input::pauser::output);
    schedule_water_mark(due_call::high_water, due_call::low_water);
  }
  return true;
}

// --- Sending what waits ---

// Writes waiting output for as long as the kernel takes it at once.
void connection_output::flush() noexcept {
  connection_io& self = whole_of(*this);
  if (self.has_layer()) return flush_layered();
  connection_backlog& backlog = *backlog_of(self);
  while (pending_output() > 0) {
    if (backlog.attachment_is_due()) {
      if (!send_attachment()) return;
      continue;
    }
    backlog.writing.pieces = backlog.next_output();
    const std::optional<io::result> result = self.group().io().start(backlog.writing);
    if (!result) return;
    if (!*result) return self.on_sending_failed(result->error());
    consume(result->count());
  }
  all_is_sent();
}

// Sends a part of the first attachment. Returns false if the rest has to wait, or sending failed.
bool connection_output::send_attachment() noexcept {
  connection_io& self = whole_of(*this);
  attached_output& attachments = *backlog_of(self)->attachments;
  if (!attachments.first().file) return send_descriptors();
  const std::optional<io::result> result = self.group().io().start(attachments.next_file_part());
  return result && take_file_part(*result);
}

bool connection_output::send_descriptors() noexcept {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = *backlog_of(self);
  attached_output& attachments = *backlog.attachments;
  for (;;) {
    const io::result sent =
        attachments.send_descriptors(self, self.group().io(), backlog.next_output());
    if (sent) {
      consume(sent.count());
      return true;
    }
    if (!sent.would_block()) return refuse(sent.error());
    const std::optional<io::result> result = self.group().io().start(attachments.room);
    if (!result) return false;
    if (!*result) {
      self.on_sending_failed(result->error());
      return false;
    }
  }
}

// Counts a sent part of the first attachment, a file. Returns whether the connection continues: a
// reset tells the peer that the rest will not come.
bool connection_output::take_file_part(io::result outcome) noexcept {
  if (!outcome) return refuse(outcome.error());
  if (outcome.count() == 0) return refuse(io::errc::unexpected_end);  // the file has shrunk
  count_sent(outcome.count());
  if (backlog_of(whole_of(*this))->attachments->take_file_part(outcome.count())) on_shrunk();
  return true;
}

void connection_output::all_is_sent() noexcept {
  connection_io& self = whole_of(*this);
  if (self.phase() == connection_phase::flushing) return self.linger();
  if (is_shut_down_) self.end_sending();
  if (self.phase() == connection_phase::open) static_cast<void>(note_all_sent());
}

// Called with the result of a request that writes, or that waits until the kernel can take more,
// whose count is 0.
void connection_output::on_written(io::result result) {
  if (!result) return whole_of(*this).on_sending_failed(result.error());
  whole_of(*this).has_layer() ? consume_sealed(result.count()) : consume(result.count());
  flush();
}

// Called with the result of a request that sends a part of a file.
void connection_output::on_file_part(io::result result) {
  if (take_file_part(result)) flush();
}

void connection_output::consume(std::size_t bytes) noexcept {
  count_sent(bytes);
  backlog_of(whole_of(*this))->consume_output(bytes);
  on_shrunk();
}

void connection_output::on_shrunk() noexcept {
  connection_io& self = whole_of(*this);
  self.update_held_bytes();
  if (is_above_high_water_ && pending_output() <= self.group().low_water()) {
    is_above_high_water_ = false;
    self.resume(connection_input::pauser::output);
    schedule_water_mark(due_call::low_water, due_call::high_water);
  }
}

// Schedules a call for a water mark. The calls for the two marks alternate: a due call for the
// opposite mark is out of date, so that both are cancelled.
void connection_output::schedule_water_mark(due_call call, due_call opposite_call) noexcept {
  connection_io& self = whole_of(*this);
  // Without a handler for one of the two events, that event must not cancel the other one.
  if (call == due_call::high_water && !self.group().handlers().high_water) return;
  if (self.is_due(opposite_call)) {
    self.cancel_due(opposite_call);
  } else {
    self.schedule(call);
  }
}

void connection_output::watch() noexcept {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = *backlog_of(self);
  const duration timeout = self.group().options().write_timeout;
  if (timeout.count() == 0 || backlog.write_timer.linked() || pending_output() == 0) return;
  backlog.write_timer.watch(timeout, self.bytes_taken_by_peer());
  self.start_timer(backlog.write_timer);
}

void connection_output::on_write_timer_expired() {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = *backlog_of(self);
  if ((!self.delivers() && !self.is_limited_when_sent()) || pending_output() == 0) return;
  if (backlog.write_timer.stalled(self.bytes_taken_by_peer())) {
    return self.abort(io::errc::write_timeout);
  }
  self.start_timer(backlog.write_timer);
}

// --- The end of sending ---

void connection_output::shutdown() noexcept {
  connection_io& self = whole_of(*this);
  if (!self.can_send()) return;
  is_shut_down_ = true;
  if (pending_output() > 0) return;
  self.has_layer() ? end_layered() : self.end_sending();
}

void connection_output::send_fin() noexcept {
  if (fin_sent_) return;
  fin_sent_ = true;
  // Shutting down fails if the connection was reset. Reading reports that error, so it is ignored.
  system::shut_down(whole_of(*this).fd(), SHUT_WR);
}

void connection_output::drop() noexcept {
  connection_io& self = whole_of(*this);
  connection_backlog* const backlog = backlog_of(self);
  if (backlog == nullptr) return;
  backlog->output.clear();
  if (backlog->attachments != nullptr) backlog->attachments->clear();
  if (self.has_layer()) {
    if (!self.writing()) layer_of(self).sealed_output = io::buffer();
    layer_of(self).replies = io::buffer();
  }
  self.update_held_bytes();
}

void connection_output::stop() noexcept {
  is_shut_down_ = fin_sent_ = true;
  whole_of(*this).cancel_due(due_calls(due_call::write_complete) | due_call::high_water |
                             due_call::low_water);
  drop();
}

// --- Through a layer ---

bool connection_output::awaits_peer() const noexcept {
  const connection_io& self = whole_of(*this);
  return self.has_layer() && !layer_of(self).may_write() &&
         (pending_output() > layer_of(self).pending() || end_is_due());
}

// Whether the layer must announce its end once all output is sent.
bool connection_output::end_is_due() const noexcept {
  const bool is_ending = whole_of(*this).phase() == connection_phase::flushing || is_shut_down_;
  return is_ending && !whole_of(*this).has_failed() && !fin_sent_;
}

bool connection_output::send_layered(std::span<const std::span<const std::byte>> pieces) try {
  connection_io& self = whole_of(*this);
  connection_layer& layer_part = layer_of(self);
  scratch_buffer plain_bytes;  // collects small pieces, which share a record
  std::span<const std::byte> rest;
  if (pieces.size() == 1) {
    rest = pieces.front();
  } else {
    std::size_t size = 0;
    for (const auto piece : pieces) size += piece.size();
    if (size > max_written_at_once) {
      return std::ranges::all_of(pieces, [this](const auto piece) { return send(piece); });
    }
    for (const auto piece : pieces) plain_bytes->append(piece);
    rest = plain_bytes->bytes();
  }

  scratch_buffer encoded_output;
  if (pending_output() == 0 && layer_part.may_write()) {
    while (!rest.empty() && encoded_output->empty()) {
      const auto part = rest.first(std::min(rest.size(), max_written_at_once));
      if (const auto error = layer_part.write(part, *encoded_output))
        return end_after(*encoded_output, error);
      rest = rest.subspan(part.size());
      if (encoded_output->empty()) continue;  // the layer holds the bytes back
      io::write_request request(self, encoded_output->bytes(), nullptr);
      encoded_output->consume(send_now(request));
      if (!self.can_send()) return false;
    }
    if (rest.empty() && encoded_output->empty()) return note_all_sent();
  }
  return queue_layered(encoded_output->bytes(), rest);
} catch (const std::bad_alloc&) {
  return refuse(no_memory());
}

bool connection_output::queue_layered(std::span<const std::byte> sealed_bytes,
                                      std::span<const std::byte> plain_bytes) {
  return queue(sealed_bytes.size() + plain_bytes.size(), [&](io::output_queue& output) {
    if (!sealed_bytes.empty()) layer_of(whole_of(*this)).sealed_output.append(sealed_bytes);
    output.append(plain_bytes);
  });
}

void connection_output::flush_layered() {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = *backlog_of(self);
  connection_layer& layer_part = layer_of(self);
  io::buffer& encoded_output = layer_part.sealed_output;
  for (;;) {
    while (!encoded_output.empty()) {
      backlog.pieces[0] = {const_cast<std::byte*>(encoded_output.data()), encoded_output.size()};
      backlog.writing.pieces = std::span(backlog.pieces).first(1);
      const std::optional<io::result> result = self.group().io().start(backlog.writing);
      if (!result) return;
      if (!*result) return self.on_sending_failed(result->error());
      consume_sealed(result->count());
    }
    bool has_progressed = false;
    std::error_code error;
    try {
      error = layer_part.seal_next(backlog, self.group().io(), end_is_due(), has_progressed);
    } catch (const std::exception&) {
      return static_cast<void>(refuse(no_memory()));
    }
    if (error) return static_cast<void>(end_after(encoded_output, error));
    if (!has_progressed) break;
    if (encoded_output.empty()) on_shrunk();  // the layer holds the bytes back
  }
  scratch_buffer::give_back(std::exchange(encoded_output, io::buffer()));
  if (!awaits_peer()) return all_is_sent();
  if (self.peer_has_ended()) return self.end(layer_part.cut_off(), connection_end::in_order);
  self.start_receiving();
  if (pending_output() > 0) return;
  if (self.phase() == connection_phase::open) static_cast<void>(note_all_sent());
  if (self.is_limited_when_sent()) self.close();
}

void connection_output::consume_sealed(std::size_t bytes) noexcept {
  count_sent(bytes);
  layer_of(whole_of(*this)).sealed_output.consume(bytes);
  on_shrunk();
}

void connection_output::send_awaiting() {
  connection_io& self = whole_of(*this);
  if (!self.is_open()) return;
  if (self.reading_paused() && self.reading()) self.group().io().stop_receiving(self);
  if (!self.writing() && (pending_output() > 0 || end_is_due())) flush_layered();
}

void connection_output::send_replies(io::buffer replies) {
  connection_io& self = whole_of(*this);
  if (self.has_failed() || fin_sent_) return;
  if (pending_output() == 0) {
    io::write_request request(self, replies.bytes(), nullptr);
    replies.consume(send_now(request));
    if (replies.empty() || self.has_failed() || !self.is_open()) return;
  }
  static_cast<void>(self.make_backlog());
  io::buffer& unsent_replies = layer_of(self).replies;
  unsent_replies.append(replies.bytes());
  if (unsent_replies.size() > max_reply_bytes) return self.abort(io::errc::output_limit);
  if (!self.writing()) flush();
  if (self.is_open() && !self.has_failed()) watch();
}

// Called when all accepted output was sent. Announces the layer's end before the FIN.
void connection_output::end_layered() noexcept {
  connection_io& self = whole_of(*this);
  try {
    static_cast<void>(self.make_backlog());
  } catch (const std::bad_alloc&) {
    return self.abort(no_memory());
  }
  if (!self.writing()) flush_layered();
}

// Ends a connection whose layer has failed, after it has sent the layer's last message.
bool connection_output::end_after(const io::buffer& last_message, std::error_code reason) noexcept {
  connection_io& self = whole_of(*this);
  if (!last_message.empty()) {
    io::write_request request(self, last_message.bytes(), nullptr);
    static_cast<void>(self.group().io().attempt(request));
  }
  self.end(reason, connection_end::in_order);
  return false;
}

}  // namespace gyre::net::detail
