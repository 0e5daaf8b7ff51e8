/* What the files of domain-xml share. */
#pragma once

#include "domain-xml.h"

#include <libxml/xmlwriter.h>

/* --- domain-xml-write.c: a writer whose first error sticks --- */

typedef struct WeftXml {
    xmlTextWriter *writer;
    GError *error;
} WeftXml;

void weft_xml_begin(WeftXml *xml, const char *element);
void weft_xml_end(WeftXml *xml);
void weft_xml_attribute(WeftXml *xml, const char *name, const char *value);
void weft_xml_attribute_format(WeftXml *xml, const char *name, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* The text of the element that was begun last. */
void weft_xml_text(WeftXml *xml, const char *text);
/* <name>text</name> */
void weft_xml_element(WeftXml *xml, const char *name, const char *text);
/* <name a="b" c="d"/>: the element's name, then pairs of names and values. */
#define weft_xml_empty(xml, ...) weft_xml_empty_of(xml, (const char *const[]){ __VA_ARGS__, NULL })
void weft_xml_empty_of(WeftXml *xml, const char *const *texts);
/* "0-3,32" of guint, which it sorts; NULL when there are none. */
char *weft_xml_set(GArray *numbers);

/* --- domain-xml-check.c: what the node is to be made of --- */

typedef struct WeftPci {
    guint domain, bus, slot, function;
} WeftPci;

/* "0000:41:00.3" */
gboolean weft_pci_parse(const char *text, WeftPci *ret_pci);
char *weft_pci_format(const WeftPci *pci);

/* A device of the host that the guest gets as it is. */
typedef struct WeftPassthrough {
    WeftPci pci;
    guint numa;       /* of the host */
    const char *root; /* borrowed from the host; NULL: unknown */
    gboolean adapter; /* of the fabric */
    guint part;       /* which of weft_node_parts() it is */
} WeftPassthrough;

/* WeftPassthrough, the fabric devices by rail, then the GPUs; NULL where the node cannot be on that host, or is wrong in
 * itself. The devices whose address nobody knows are left out where the domain boots from nothing, and refused otherwise. */
GArray *weft_domain_check(const WeftDomainSpec *spec, GError **error);

/* The cell of the guest that mirrors a NUMA node of the host; -1: none, or the guest sees no NUMA at all. */
int weft_domain_cell(const WeftDomainSpec *spec, guint numa);

/* --- domain-xml-cpus.c --- */

/* Virtual CPUs: every hardware thread of the node's cores. */
guint weft_domain_vcpus(const WeftDomainSpec *spec);
void weft_domain_write_memory(WeftXml *xml, const WeftDomainSpec *spec);
void weft_domain_write_vcpus(WeftXml *xml, const WeftDomainSpec *spec);
void weft_domain_write_numatune(WeftXml *xml, const WeftDomainSpec *spec);
void weft_domain_write_cpu(WeftXml *xml, const WeftDomainSpec *spec);

/* --- domain-xml-devices.c --- */

#define WEFT_DOMAIN_IOTHREAD 1 /* the one for all disks */

#define WEFT_DOMAIN_NIC "ua-nic"   /* the alias of one that is plugged */
#define WEFT_DOMAIN_RAIL "ua-rail" /* … of what it has of its host, with a number */
#define WEFT_DOMAIN_GPU "ua-gpu"
/* alias: NULL: libvirt gives it one. */
void weft_domain_write_nic(WeftXml *xml, const WeftDomainSpec *spec, const char *alias);
/* One of what it has of its host; NULL: nobody knows where it is (the fake's). */
void weft_domain_write_part(WeftXml *xml, const WeftDomainSpec *spec, guint part, const WeftPassthrough *device);
void weft_domain_write_devices(WeftXml *xml, const WeftDomainSpec *spec, GArray *passthroughs);
