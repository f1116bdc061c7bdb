// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/mapped_image.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/base/unique_fd.hpp>

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace gyre::detail {

namespace {

std::string path_of_program() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : "/proc/self/exe";
}

}  // namespace

mapped_image::mapped_image(const char* path) noexcept {
  const unique_fd file(retry_interrupted([&] { return ::open(path, O_RDONLY | O_CLOEXEC); }));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(memory), size};
}

mapped_image::~mapped_image() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::optional<loaded_image> loaded_image_of(std::uint64_t address) {
  struct search {
    std::uint64_t address;
    const char* path = nullptr;
    std::uint64_t offset = 0;
  } found{.address = address};
  const auto look = [](dl_phdr_info* image, std::size_t, void* argument) {
    auto& result = *static_cast<search*>(argument);
    for (int index = 0; index < image->dlpi_phnum; ++index) {
      const auto& segment = image->dlpi_phdr[index];
      const std::uint64_t begin = image->dlpi_addr + segment.p_vaddr;
      const bool is_code = segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0;
      if (!is_code || result.address < begin || result.address - begin >= segment.p_memsz) continue;
      result.path = image->dlpi_name;
      result.offset = result.address - image->dlpi_addr;
      return 1;
    }
    return 0;
  };
  if (::dl_iterate_phdr(look, &found) == 0) return std::nullopt;
  const bool is_program = found.path == nullptr || *found.path == '\0';
  return loaded_image{.path = is_program ? path_of_program() : found.path,
                      .is_program = is_program,
                      .offset = found.offset};
}

}  // namespace gyre::detail
