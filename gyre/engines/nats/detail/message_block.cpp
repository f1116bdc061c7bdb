// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/message_block.hpp>

#include <gyre/base/slab.hpp>

#include <algorithm>
#include <new>

namespace gyre::nats::detail {

void message_deleter::operator()(message_block* block) const noexcept {
  const std::size_t size = block->size();
  block->~message_block();
  slab_deallocate(block, size);
}

message_block::message_block(const operation& source) noexcept
    : subject_size_(static_cast<std::uint32_t>(source.subject.size())),
      reply_size_(static_cast<std::uint32_t>(source.reply.size())),
      headers_size_(source.headers.size()),
      payload_size_(source.payload.size()) {
  char* end = text();
  for (const std::string_view part :
       {source.subject, source.reply, source.headers, source.payload}) {
    end = std::ranges::copy(part, end).out;
  }
}

message_ptr message_block::make(const operation& source) {
  const std::size_t size = sizeof(message_block) + source.subject.size() + source.reply.size() +
                           source.headers.size() + source.payload.size();
  return message_ptr(new (slab_allocate(size)) message_block(source));
}

}  // namespace gyre::nats::detail
