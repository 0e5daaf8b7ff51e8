# A guest of no system (multiboot): walks over a ring of pages again and again, and writes to each what it has to find there the next
# time. It tells each round by a letter on its serial port, and by "!" that memory was not what it had written.
    .set base, 0x100000
    .set ring, 0x200000
    .set pages, 64
    .set delay, 5000
    .code32
    .globl _start
header:
    .long 0x1badb002, 0x10000, -(0x1badb002 + 0x10000)
    .long header, base, 0, 0, _start
_start:
    cli
    xor %ebx, %ebx
round:
    mov $ring, %edi
    mov $pages, %ecx
page:
    cmp %ebx, (%edi)
    jne wrong
    cmp %ebx, 4092(%edi)
    jne wrong
    lea 1(%ebx), %eax
    mov %eax, (%edi)
    mov %eax, 4092(%edi)
    mov $delay, %edx
1:  dec %edx
    jnz 1b
    add $4096, %edi
    dec %ecx
    jnz page
    inc %ebx
    mov %ebx, %eax
    xor %edx, %edx
    mov $26, %ecx
    div %ecx
    lea 97(%edx), %eax
    mov $0x3f8, %edx
    out %al, %dx
    mov $10, %al
    out %al, %dx
    jmp round
wrong:
    mov $33, %al
    mov $0x3f8, %edx
    out %al, %dx
    mov $10, %al
    out %al, %dx
2:  hlt
    jmp 2b
