// Command kubelet prints the fields of the kubelet's KubeletConfiguration, one line each: the path, and the JSON type.
// A `*` in a path is each item of a list or each value of a map.
package main

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// jsonType names the JSON type of a Go type that decodes itself, or of a basic one.
func jsonType(t reflect.Type) string {
	switch t {
	case reflect.TypeOf(metav1.Duration{}):
		return "duration"
	case reflect.TypeOf(metav1.Time{}):
		return "time"
	case reflect.TypeOf(resource.Quantity{}):
		return "quantity"
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return "any"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.Map:
		return "map"
	case reflect.Struct:
		return "object"
	}
	return "any"
}

type selfDecoding interface{ UnmarshalJSON([]byte) error }

var unmarshaler = reflect.TypeOf((*selfDecoding)(nil)).Elem()

func print(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := jsonType(t)
	if path != "" {
		fmt.Printf("%s\t%s\n", path, kind)
	}
	switch kind {
	case "list", "map":
		print(t.Elem(), path+"/*")
	case "object":
		fields(t, path)
	}
}

func fields(t reflect.Type, path string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			fields(field.Type, path)
		default:
			print(field.Type, strings.TrimPrefix(path+"/"+name, "/"))
		}
	}
}

func main() {
	print(reflect.TypeOf(kubelet.KubeletConfiguration{}), "")
}
