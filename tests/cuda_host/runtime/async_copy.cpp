// cp.async: a copy is carried out when its group is waited for.
#include <cstring>

#include "accesses.h"
#include "state.h"

namespace cuda_host {

void copy_async(void* shared, const void* global, size_t bytes, size_t source_bytes, Place here) {
  Thread& thread = *running();
  thread.here = here;
  if (uintptr_t(shared) % bytes || uintptr_t(global) % bytes)
    fail("misaligned", here, "cp.async of %zu bytes from %p to %p", bytes, global, shared);
  if (source_bytes > bytes) fail("undefined-behaviour", here, "cp.async of %zu bytes out of %zu", bytes, source_bytes);
  if (source_bytes) check_access(global, source_bytes, false, here);
  begin_arrival(static_cast<char*>(shared), bytes, here);
  if (thread.copies.empty()) thread.copies.emplace_back();
  thread.copies.back().push_back(
      {static_cast<char*>(shared), static_cast<const char*>(global), bytes, source_bytes, here});
}

void commit_copies() {
  auto& copies = running()->copies;
  if (copies.empty()) copies.emplace_back();
  copies.emplace_back();
}

void wait_copies(int groups_left) {
  auto& copies = running()->copies;
  while (int(copies.size()) - 1 > groups_left) {
    for (const AsyncCopy& copy : copies.front()) {
      memset(copy.shared, 0, copy.bytes);
      memcpy(copy.shared, copy.global, copy.source_bytes);
      end_arrival(copy.shared, copy.bytes, copy.here);
    }
    copies.erase(copies.begin());
  }
}

void check_copies_done(const Thread& thread) {
  for (const auto& group : thread.copies)
    if (!group.empty()) fail("async-copy", group.front().here, "a thread returns without waiting for its cp.async");
}

}  // namespace cuda_host
