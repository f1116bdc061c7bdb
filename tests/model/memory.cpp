// SPDX-License-Identifier: Apache-2.0
//
// The rules of the memory model's abstract machine, one function per kind of operation.
#include <tests/model/memory.hpp>

#include <tests/model/scheduler.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace gyre::model {
namespace {

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_consume ||
         order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

}  // namespace

void memory::reset() {
  used_ = 0;
  cells_used_ = 0;
  by_address_.clear();
  by_granule_.clear();
  sequential_ = heavy_ = sequential_stores_ = light_fences_ = 0;
}

memory::location& memory::create(unsigned at, std::uintptr_t address, std::size_t size,
                                 word value) {
  location& made = atomics_[at];
  made.address = address;
  made.size = size;
  made.live = true;
  made.reload = false;
  made.creator = 0;
  made.created = 0;
  made.stores.clear();
  made.stores.push_back({.value = value, .published = {}, .hash = 0});
  for (auto& each : made.seen) each.clear();
  made.accessed.fill(0);
  made.sequential_floor = made.light_floor = made.heavy_floor = 0;
  return made;
}

unsigned memory::locate(std::uintptr_t address, std::size_t size) {
  unsigned& index = by_address_[address];
  const bool known = index != table::missing;
  if (known && !atomics_[index].reload) return index;
  if (!known) {
    if (used_ == atomics_.size()) atomics_.emplace_back();
    index = static_cast<unsigned>(used_++);
  }
  word value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(address), size);
  create(index, address, size, value);
  return index;
}

void memory::construct(observer& by, std::uintptr_t address, std::size_t size, word value) {
  unsigned& index = by_address_[address];
  if (index == table::missing) {
    if (used_ == atomics_.size()) atomics_.emplace_back();
    index = static_cast<unsigned>(used_++);
  } else if (atomics_[index].live) {
    check_ended(by, atomics_[index]);
  }
  location& made = create(index, address, size, value);
  made.creator = by.id;
  made.created = by.tick();
  made.stores.back().hash = by.history;
}

void memory::destroy(observer& by, std::uintptr_t address) {
  const unsigned index = by_address_.find(address);
  if (index == table::missing || !atomics_[index].live) return;
  check_ended(by, atomics_[index]);
  atomics_[index].live = false;
}

// An error even if this schedule performed the access first, as another schedule may not.
void memory::check_ended(const observer& by, const location& ending) const {
  for (unsigned thread = 0; thread < max_threads; ++thread) {
    if (!by.knows(thread, ending.accessed[thread])) {
      fail("the end of an atomic is not ordered after an access to it by thread " +
           std::to_string(thread) + " (use after free in another schedule)");
    }
  }
}

void memory::enter(observer& by, location& entered) const {
  if (!entered.live) fail("use of an atomic after its end");
  if (!by.knows(entered.creator, entered.created)) {
    fail("use of an atomic that is not ordered after its construction by thread " +
         std::to_string(entered.creator) + " (published without release, or read without acquire)");
  }
  entered.accessed[by.id] = by.tick();
}

// The newest store that an operation which happened before has seen: coherence forbids older
// stores.
unsigned memory::known(const observer& by, const location& of) const {
  unsigned newest = 0;
  for (unsigned thread = 0; thread < max_threads; ++thread) {
    const auto& sightings = of.seen[thread];
    for (auto at = sightings.rbegin(); at != sightings.rend(); ++at) {
      if (!by.knows(thread, at->tick)) continue;
      newest = std::max(newest, at->store);
      break;
    }
  }
  return newest;
}

void memory::see(const observer& by, location& where, unsigned store) {
  auto& sightings = where.seen[by.id];
  if (sightings.empty() ? store == 0 : sightings.back().store >= store) return;
  sightings.push_back({.tick = by.tick(), .store = store});
}

memory::range memory::readable(observer& by, unsigned atomic, std::memory_order order) const {
  const location& read = atomics_[atomic];
  unsigned oldest = known(by, read);
  if (order == std::memory_order_seq_cst) oldest = std::max(oldest, read.sequential_floor);
  return {.oldest = oldest, .latest = static_cast<unsigned>(read.stores.size() - 1)};
}

void memory::acquire(observer& by, const vector_clock& published, std::memory_order order) const {
  (acquires(order) ? by.now : by.to_acquire).join(published);
}

void memory::load(observer& by, unsigned atomic, unsigned store, std::memory_order order) {
  location& read = atomics_[atomic];
  enter(by, read);
  const store_event& returned = read.stores[store];
  acquire(by, returned.published, order);
  see(by, read, store);
  if (store + 1 != read.stores.size()) by.stale.push_back(atomic);
  by.history = mix(by.history, returned.hash);
}

void memory::publish_sequential(observer& by, location& to) {
  to.sequential_floor = static_cast<unsigned>(to.stores.size() - 1);
  sequential_stores_ += by.history;
}

void memory::store(observer& by, unsigned atomic, word value, std::memory_order order) {
  location& written = atomics_[atomic];
  enter(by, written);
  by.history = mix(by.history, written.stores.back().hash);
  written.stores.push_back(
      {.value = value, .published = releases(order) ? by.now : by.released, .hash = by.history});
  see(by, written, static_cast<unsigned>(written.stores.size() - 1));
  if (order == std::memory_order_seq_cst) publish_sequential(by, written);
}

// A read-modify-write reads the newest store and continues its release sequence.
void memory::update(observer& by, unsigned atomic, word value, std::memory_order order) {
  location& written = atomics_[atomic];
  enter(by, written);
  const vector_clock earlier = written.stores.back().published;
  acquire(by, earlier, order);
  by.history = mix(by.history, written.stores.back().hash);
  vector_clock published = releases(order) ? by.now : by.released;
  published.join(earlier);
  written.stores.push_back({.value = value, .published = published, .hash = by.history});
  see(by, written, static_cast<unsigned>(written.stores.size() - 1));
  if (order == std::memory_order_seq_cst) publish_sequential(by, written);
}

void memory::fence(observer& by, std::memory_order order) {
  if (acquires(order)) by.now.join(by.to_acquire);
  if (releases(order)) by.released = by.now;
  if (order != std::memory_order_seq_cst) return;
  by.history = sequential_ = mix(mix(by.history, sequential_), sequential_stores_);
  for (std::size_t i = 0; i < used_; ++i) {
    location& each = atomics_[i];
    each.sequential_floor = std::max(each.sequential_floor, known(by, each));
    see(by, each, each.sequential_floor);
  }
}

// Makes this thread's operations visible to later heavy fences, and the effects of earlier heavy
// fences visible to this thread. Neither acquires nor releases.
void memory::light_fence(observer& by) {
  by.history = mix(by.history, heavy_);
  light_fences_ += by.history;
  for (std::size_t i = 0; i < used_; ++i) {
    location& each = atomics_[i];
    each.light_floor = std::max(each.light_floor, known(by, each));
    see(by, each, each.heavy_floor);
  }
}

void memory::heavy_fence(observer& by) {
  by.now.join(by.to_acquire);
  by.released = by.now;
  by.history =
      mix(mix(mix(by.history, heavy_), mix(sequential_, sequential_stores_)), light_fences_);
  sequential_ = heavy_ = by.history;
  for (std::size_t i = 0; i < used_; ++i) {
    location& each = atomics_[i];
    const unsigned shown =
        std::max({known(by, each), each.sequential_floor, each.light_floor, each.heavy_floor});
    each.sequential_floor = each.heavy_floor = shown;
    see(by, each, shown);
  }
}

void memory::catch_up(observer& by) {
  for (const unsigned atomic : by.stale) {
    location& each = atomics_[atomic];
    see(by, each, static_cast<unsigned>(each.stores.size() - 1));
    by.history = mix(by.history, each.stores.back().hash);
  }
  by.stale.clear();
}

void memory::check_race(const observer& by, const cell& touched, std::uint8_t bytes, bool writes,
                        std::size_t size, const void* pc) {
  for (const record& each : touched.records) {
    if ((each.bytes & bytes) == 0 || !(each.writes || writes) || by.knows(each.thread, each.tick)) {
      continue;
    }
    fail(std::string("data race: a plain ") + (writes ? "write" : "read") + " of " +
             std::to_string(size) + " bytes is not ordered with a " +
             (each.writes ? "write" : "read") + " by thread " + std::to_string(each.thread),
         pc, each.pc);
  }
}

void memory::access(observer& by, std::uintptr_t address, std::size_t size, bool writes,
                    const void* pc) {
  if (writes) {
    const unsigned atomic = by_address_.find(address);
    if (atomic != table::missing && atomics_[atomic].live) {
      check_ended(by, atomics_[atomic]);
      atomics_[atomic].reload = true;
    }
  }
  for (std::uintptr_t granule = address & ~std::uintptr_t{7}; granule < address + size;
       granule += 8) {
    const std::uintptr_t from = std::max(address, granule) - granule;
    const std::uintptr_t to = std::min(address + size, granule + 8) - granule;
    const auto bytes = static_cast<std::uint8_t>((0xffU >> (8 - (to - from))) << from);
    unsigned& index = by_granule_[granule];
    if (index == table::missing) {
      if (cells_used_ == cells_.size()) cells_.emplace_back();
      index = static_cast<unsigned>(cells_used_++);
      cells_[index].address = granule;
      cells_[index].records.clear();
    }
    check_race(by, cells_[index], bytes, writes, size, pc);
    auto& records = cells_[index].records;
    // An earlier access that is within the range of this access and ordered before it can race with
    // a later access only if this access does.
    std::erase_if(records, [&](const record& each) {
      return (each.bytes & ~bytes) == 0 && (writes || (!each.writes && each.thread == by.id));
    });
    records.push_back({.tick = by.tick(),
                       .thread = static_cast<std::uint8_t>(by.id),
                       .bytes = bytes,
                       .writes = writes,
                       .pc = pc});
  }
}

void memory::release(observer& by, std::uintptr_t address, std::size_t size, const void* pc) {
  for (std::size_t i = 0; i < used_; ++i) {
    location& each = atomics_[i];
    if (each.live && each.address - address < size) {
      check_ended(by, each);
      each.live = false;
    }
  }
  // Nothing is recorded: any later access is a use after free, not an ordinary access.
  for (std::size_t i = 0; i < cells_used_; ++i) {
    if (cells_[i].address + 7 - address < size + 7) check_race(by, cells_[i], 0xff, true, size, pc);
  }
}

}  // namespace gyre::model
