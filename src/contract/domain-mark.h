/* What a domain's metadata says of the node that it is: weftd writes it, weft-hook on the host and later weftds read it. */
#pragma once

/* The namespace of weft's element in <metadata>: a domain that has it is weft's. What weft-hook reads there:
 *
 *     <weft:node xmlns:weft="NAMESPACE" id="4k2m8w9x1a2b-3" tenant="acme" rank="3" hostname="cfd-3" path="sriov"
 *                mac="02:00:00:00:00:01" site="7t0k2m8w9x1a" placement="3p1a2b4k2m8w">
 *       <weft:cluster id="4k2m8w9x1a2b" name="cfd"/>
 *       <weft:partition pkey="0x0001" vxlan="10001" bridge="weft10001"/>
 *       <weft:device rail="0" hca="mlx5_0" driver="mlx5" vf="2" pci="0000:41:00.3" pf="0000:41:00.0"
 *                    guid="0x0277650000000001" pkey="0x0001" shared="0x7001 0xf002" plugged="later"/>
 *       <weft:device rail="1" hca="mlx5_1" driver="mlx5" pci="0000:81:00.0" pf="0000:81:00.0" pkey="0x0001"/>
 *       <weft:gpu name="0000:42:00.0"/>
 *       <weft:record>{"node": …}</weft:record>
 *       <weft:owner run="3r1a2b4k2m8w"/>
 *     </weft:node>
 *
 * tenant and name are for people; site, placement and record for weftd, which removes nothing that it cannot prove to be its
 * own and ended. path is a word of weft_path_words. pkey is the partition's number, 15 bits, without the bit of full
 * membership. shared, absent where there are none, are P_Keys of other partitions, 16 bits with that bit: a function's table
 * has pkey first, then these in their order, then the default partition, limited. hca is the device's name on the host
 * (/sys/class/infiniband), driver a word of weft_hca_driver_words, vf the number of the virtual function from 0. Without vf the
 * device is the whole HCA: it has no guid of weft's, and pci is the address of the HCA itself. pci, the address of what the
 * guest gets, and pf, that of the physical function, have the form "dddd:bb:ss.f"; only a domain that boots from nothing (the
 * fake's) may lack them. guid serves as node and as port GUID. plugged="later" marks a device that is not among the domain's
 * <devices> yet and is to be prepared all the same; the attribute is absent otherwise. owner comes
 * from the driver that starts the domain: see hook.h. */
#define WEFT_DOMAIN_NAMESPACE "https://weft.dev/xmlns/domain/1"

/* Larger texts are refused: a domain of 1,024 cores stays far below. */
#define WEFT_DOMAIN_XML_MAX (1024 * 1024)
