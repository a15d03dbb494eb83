"""Whether documents and objects are what they should be.

`schema` holds a document against the JSON Schema of its kind, `kubernetes` and `pods` what it
carries for Kubernetes against the API of a chosen version; `job` and `objects` look at the job
and at what leaves. Apart from the frontends, so that these read valid documents only.
"""
