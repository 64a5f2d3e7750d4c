// Device memory: each allocation ends at a page that nobody may touch, and no address is given out twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_host {

struct Word;

struct Allocation {
  char* start;
  size_t bytes;
  char name[48];
  bool live, read_only;
  uint8_t* written;  // a byte for each byte: has it a value?
  Word* words;       // of the race check; made at the first access
};

struct Fault {
  const char* kind;
  char text[200];
};

bool in_arena(const volatile void* address);
Allocation* allocation_of(const volatile void* address);  // nullptr for pages that belong to none; also of freed ones
Fault explain_fault(const char* address);
void make_words(Allocation& allocation);       // for the race check
void check_slack();                            // writes beside a buffer that met no forbidden page
std::string name_of(const Allocation* owner);  // nullptr: shared memory

}  // namespace cuda_host
